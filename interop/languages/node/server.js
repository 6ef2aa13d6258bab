// The test service of gRPC's interop cases, on @grpc/grpc-js.
//
// Usage: node server.js DESCRIPTORS [LIMIT]. README.md of the folder above says
// what a server prints and reads.
'use strict';

const fs = require('node:fs');
const readline = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');

const grpc = require('@grpc/grpc-js');
const { loadFileDescriptorSetFromBuffer } = require('@grpc/proto-loader');
const { version } = require('@grpc/grpc-js/package.json');

const INITIAL = 'x-grpc-test-echo-initial';
const TRAILING = 'x-grpc-test-echo-trailing-bin';

const say = (line) => process.stdout.write(`${line}\n`);

const payload = (size) => ({ body: Buffer.alloc(size) });

// echoMetadata sends response headers if asked to, and returns the trailers.
function echoMetadata(call) {
  const trailer = new grpc.Metadata();
  const initial = call.metadata.get(INITIAL);
  if (initial.length > 0) {
    const header = new grpc.Metadata();
    header.set(INITIAL, initial[0]);
    call.sendMetadata(header);
  }
  for (const value of call.metadata.get(TRAILING)) {
    trailer.add(TRAILING, value);
  }
  return trailer;
}

const wantedStatus = (request) =>
  request.response_status?.code ? { code: request.response_status.code, details: request.response_status.message } : null;

function unaryCall(call, callback) {
  const trailer = echoMetadata(call);
  switch (call.metadata.get('x-behavior')[0]) {
    case 'headers':
      call.sendMetadata(new grpc.Metadata());
      break;
    case 'crash':
      throw new Error('asked to crash');
    case 'hang':
      say('hanging');
      return;
  }
  const report = call.request.orca_per_query_report;
  if (report) {
    const recorder = call.getMetricsRecorder();
    recorder.recordCPUUtilizationMetric(report.cpu_utilization);
    recorder.recordMemoryUtilizationMetric(report.memory_utilization);
    // Maps of a file of descriptors are loaded as what they are on the wire.
    report.request_cost.forEach(({ key, value }) => recorder.recordRequestCostMetric(key, value));
    report.utilization.forEach(({ key, value }) => recorder.recordUtilizationMetric(key, value));
  }
  const status = wantedStatus(call.request);
  if (status) {
    callback({ ...status, metadata: trailer });
    return;
  }
  const response = { payload: payload(call.request.response_size) };
  if (call.request.fill_server_id) {
    response.server_id = 'node';
  }
  callback(null, response, trailer);
}

// respond answers one request of a stream, and returns whether the stream goes on.
async function respond(call, request) {
  for (const { size, interval_us: interval } of request.response_parameters) {
    if (interval > 0) {
      await sleep(interval / 1000);
    }
    if (call.cancelled) {
      return false;
    }
    call.write({ payload: payload(size) });
  }
  const status = wantedStatus(request);
  if (status) {
    call.emit('error', status);
    return false;
  }
  return true;
}

async function streamingOutputCall(call) {
  if (await respond(call, call.request)) {
    call.end();
  }
}

function streamingInputCall(call, callback) {
  let size = 0;
  call.on('data', (request) => {
    size += request.payload.body.length;
  });
  call.on('error', () => {}); // the client has gone
  call.on('end', () => callback(null, { aggregated_payload_size: size }));
}

async function fullDuplexCall(call) {
  const trailer = echoMetadata(call);
  try {
    for await (const request of call.iterator({ destroyOnReturn: false })) {
      if (!(await respond(call, request))) {
        return;
      }
    }
    call.end(trailer);
  } catch {
    // The client has gone.
  }
}

const descriptors = loadFileDescriptorSetFromBuffer(fs.readFileSync(process.argv[2]), { defaults: true });
const options = { 'grpc.server_call_metric_recording': 1 };
if (process.argv[3]) {
  options['grpc.max_concurrent_streams'] = Number(process.argv[3]);
}
const server = new grpc.Server(options);
server.addService(descriptors['grpc.testing.TestService'], {
  EmptyCall: (_call, callback) => callback(null, {}),
  UnaryCall: unaryCall,
  StreamingOutputCall: streamingOutputCall,
  StreamingInputCall: streamingInputCall,
  FullDuplexCall: fullDuplexCall,
});
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) {
    throw error;
  }
  say(`ready ${port} ${version}`);
});

const commands = readline.createInterface({ input: process.stdin });
commands.on('line', (line) => {
  switch (line) {
    case 'drain':
      server.tryShutdown(() => {});
      break;
    case 'stop':
      server.forceShutdown();
      say('stopped');
      break;
  }
});
commands.on('close', () => process.exit());
