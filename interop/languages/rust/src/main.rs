//! The test service of gRPC's interop cases, on tonic.
//!
//! Usage: interop-server [LIMIT]. README.md of the folder above says what a server
//! prints and reads.

use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

#[allow(dead_code)] // messages that the service does not use
mod pb {
    tonic::include_proto!("grpc.testing");
}
use pb::test_service_server::{TestService, TestServiceServer};

const INITIAL: &str = "x-grpc-test-echo-initial";

type Responses =
    Pin<Box<dyn Stream<Item = Result<pb::StreamingOutputCallResponse, Status>> + Send>>;

struct Service;

fn say(line: &str) {
    println!("{line}");
}

fn payload(size: i32) -> Option<pb::Payload> {
    Some(pb::Payload {
        body: vec![0; size as usize],
        ..Default::default()
    })
}

/// The error that a request asks for.
fn wanted(status: &Option<pb::EchoStatus>) -> Result<(), Status> {
    match status {
        Some(s) if s.code != 0 => Err(Status::new(tonic::Code::from(s.code), s.message.clone())),
        _ => Ok(()),
    }
}

fn echo_header(from: &MetadataMap, to: &mut MetadataMap) {
    if let Some(value) = from.get(INITIAL) {
        to.insert(INITIAL, value.clone());
    }
}

/// Sends what a request asks for, and returns false if the stream ends with it.
async fn respond(
    request: &pb::StreamingOutputCallRequest,
    tx: &mpsc::Sender<Result<pb::StreamingOutputCallResponse, Status>>,
) -> bool {
    for parameters in &request.response_parameters {
        if parameters.interval_us > 0 {
            tokio::time::sleep(Duration::from_micros(parameters.interval_us as u64)).await;
        }
        let response = pb::StreamingOutputCallResponse {
            payload: payload(parameters.size),
            ..Default::default()
        };
        if tx.send(Ok(response)).await.is_err() {
            return false; // the client has gone
        }
    }
    match wanted(&request.response_status) {
        Ok(()) => true,
        Err(status) => {
            let _ = tx.send(Err(status)).await;
            false
        }
    }
}

#[tonic::async_trait]
impl TestService for Service {
    type StreamingOutputCallStream = Responses;
    type FullDuplexCallStream = Responses;
    type HalfDuplexCallStream = Responses;

    async fn empty_call(&self, _: Request<pb::Empty>) -> Result<Response<pb::Empty>, Status> {
        Ok(Response::new(pb::Empty {}))
    }

    async fn unary_call(
        &self,
        request: Request<pb::SimpleRequest>,
    ) -> Result<Response<pb::SimpleResponse>, Status> {
        match request
            .metadata()
            .get("x-behavior")
            .and_then(|v| v.to_str().ok())
        {
            Some("crash") => panic!("asked to crash"),
            Some("hang") => {
                say("hanging");
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        wanted(&request.get_ref().response_status)?;
        let mut response = Response::new(pb::SimpleResponse {
            payload: payload(request.get_ref().response_size),
            ..Default::default()
        });
        if request.get_ref().fill_server_id {
            response.get_mut().server_id = "rust".into();
        }
        echo_header(request.metadata(), response.metadata_mut());
        Ok(response)
    }

    async fn streaming_output_call(
        &self,
        request: Request<pb::StreamingOutputCallRequest>,
    ) -> Result<Response<Responses>, Status> {
        if request
            .metadata()
            .get("x-behavior")
            .is_some_and(|v| v == "refuse")
        {
            wanted(&request.get_ref().response_status)?;
        }
        let (tx, rx) = mpsc::channel(1);
        tokio::spawn(async move { respond(request.get_ref(), &tx).await });
        Ok(Response::new(Box::pin(ReceiverStream::new(rx))))
    }

    async fn streaming_input_call(
        &self,
        request: Request<Streaming<pb::StreamingInputCallRequest>>,
    ) -> Result<Response<pb::StreamingInputCallResponse>, Status> {
        let mut requests = request.into_inner();
        let mut size = 0;
        while let Some(request) = requests.message().await? {
            size += request.payload.map_or(0, |p| p.body.len() as i32);
        }
        Ok(Response::new(pb::StreamingInputCallResponse {
            aggregated_payload_size: size,
        }))
    }

    async fn full_duplex_call(
        &self,
        request: Request<Streaming<pb::StreamingOutputCallRequest>>,
    ) -> Result<Response<Responses>, Status> {
        let metadata = request.metadata().clone();
        let mut requests = request.into_inner();
        let (tx, rx) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(Ok(request)) = requests.next().await {
                if !respond(&request, &tx).await {
                    return;
                }
            }
        });
        let mut response = Response::new(Box::pin(ReceiverStream::new(rx)) as Responses);
        echo_header(&metadata, response.metadata_mut());
        Ok(response)
    }

    async fn half_duplex_call(
        &self,
        _: Request<Streaming<pb::StreamingOutputCallRequest>>,
    ) -> Result<Response<Responses>, Status> {
        Err(Status::unimplemented("no case uses it"))
    }

    async fn cacheable_unary_call(
        &self,
        _: Request<pb::SimpleRequest>,
    ) -> Result<Response<pb::SimpleResponse>, Status> {
        Err(Status::unimplemented("no case uses it"))
    }

    async fn unimplemented_call(
        &self,
        _: Request<pb::Empty>,
    ) -> Result<Response<pb::Empty>, Status> {
        Err(Status::unimplemented("as its name says"))
    }
}

/// The version of tonic, as it is in the lock file.
fn version() -> &'static str {
    include_str!("../Cargo.lock")
        .split("name = \"tonic\"\nversion = \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap_or("unknown")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limit = std::env::args()
        .nth(1)
        .map(|text| text.parse())
        .transpose()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(&format!(
        "ready {} {}",
        listener.local_addr()?.port(),
        version()
    ));
    let (drain, drained) = tokio::sync::oneshot::channel::<()>();
    let service = TestServiceServer::new(Service)
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip);
    tokio::spawn(
        tonic::transport::Server::builder()
            .max_concurrent_streams(limit)
            .add_service(service)
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), async {
                let _ = drained.await;
            }),
    );
    let mut drain = Some(drain);
    let mut commands = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = commands.next_line().await? {
        if line == "drain" {
            drop(drain.take());
        }
    }
    std::process::exit(0);
}
