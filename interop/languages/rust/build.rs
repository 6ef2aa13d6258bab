//! Generates the service from the descriptors in the file DESCRIPTORS.

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-env-changed=DESCRIPTORS");
    let bytes = std::fs::read(std::env::var("DESCRIPTORS")?)?;
    let descriptors = prost_types::FileDescriptorSet::decode(bytes.as_slice())?;
    tonic_prost_build::configure()
        .build_client(false)
        .compile_fds(descriptors)?;
    Ok(())
}
