"""The test service of gRPC's interop cases, on grpcio.

Usage: server.py DESCRIPTORS [LIMIT]. README.md of the folder above says what a
server prints and reads.
"""

import concurrent.futures
import sys
import threading
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

INITIAL = "x-grpc-test-echo-initial"
TRAILING = "x-grpc-test-echo-trailing-bin"

out = threading.Lock()


def say(line):
    with out:
        print(line, flush=True)


def load(path):
    """Returns a function from the name of a message to its class."""
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet()
    with open(path, "rb") as f:
        files.ParseFromString(f.read())
    for file in files.file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(
        pool.FindMessageTypeByName("grpc.testing." + name)
    )


def echo_metadata(context):
    for key, value in context.invocation_metadata():
        if key == INITIAL:
            context.send_initial_metadata(((key, value),))
        elif key == TRAILING:
            context.set_trailing_metadata(((key, value),))


def asked(context):
    return dict(context.invocation_metadata()).get("x-behavior")


def fail_if_asked(context, request):
    if request.response_status.code:
        code = next(c for c in grpc.StatusCode if c.value[0] == request.response_status.code)
        context.abort(code, request.response_status.message)


class TestService:
    def __init__(self, message):
        self.message = message

    def payload(self, size):
        return self.message("Payload")(body=bytes(size))

    def empty_call(self, _request, _context):
        return self.message("Empty")()

    def unary_call(self, request, context):
        echo_metadata(context)
        behavior = asked(context)
        if behavior == "headers":
            context.send_initial_metadata(())
            # What follows at once may go out in the same frame: then there are no
            # headers before the error.
            time.sleep(0.3)
        if behavior == "crash":
            raise RuntimeError("asked to crash")
        if behavior == "hang":
            ended = threading.Event()
            context.add_callback(ended.set)
            say("hanging")
            ended.wait()
        fail_if_asked(context, request)
        response = self.message("SimpleResponse")(payload=self.payload(request.response_size))
        if request.fill_server_id:
            response.server_id = "python"
        return response

    def responses(self, request, context):
        for parameters in request.response_parameters:
            time.sleep(parameters.interval_us / 1e6)
            yield self.message("StreamingOutputCallResponse")(payload=self.payload(parameters.size))
        fail_if_asked(context, request)

    def streaming_output_call(self, request, context):
        yield from self.responses(request, context)

    def streaming_input_call(self, requests, _context):
        size = sum(len(request.payload.body) for request in requests)
        return self.message("StreamingInputCallResponse")(aggregated_payload_size=size)

    def full_duplex_call(self, requests, context):
        echo_metadata(context)
        for request in requests:
            yield from self.responses(request, context)

    def handlers(self):
        def handler(kind, method, request, response):
            return kind(
                method,
                request_deserializer=self.message(request).FromString,
                response_serializer=self.message(response).SerializeToString,
            )

        return grpc.method_handlers_generic_handler("grpc.testing.TestService", {
            "EmptyCall": handler(grpc.unary_unary_rpc_method_handler, self.empty_call, "Empty", "Empty"),
            "UnaryCall": handler(grpc.unary_unary_rpc_method_handler, self.unary_call, "SimpleRequest", "SimpleResponse"),
            "StreamingOutputCall": handler(grpc.unary_stream_rpc_method_handler, self.streaming_output_call, "StreamingOutputCallRequest", "StreamingOutputCallResponse"),
            "StreamingInputCall": handler(grpc.stream_unary_rpc_method_handler, self.streaming_input_call, "StreamingInputCallRequest", "StreamingInputCallResponse"),
            "FullDuplexCall": handler(grpc.stream_stream_rpc_method_handler, self.full_duplex_call, "StreamingOutputCallRequest", "StreamingOutputCallResponse"),
        })


def main():
    limit = int(sys.argv[2]) if len(sys.argv) > 2 else None
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=32), maximum_concurrent_rpcs=limit)
    server.add_generic_rpc_handlers((TestService(load(sys.argv[1])).handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    say(f"ready {port} {grpc.__version__}")
    for line in sys.stdin:
        if line.strip() == "drain":
            server.stop(grace=3600)
        elif line.strip() == "stop":
            server.stop(grace=None)
            say("stopped")
    server.stop(grace=None).wait()


main()
