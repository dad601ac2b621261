/** Limits on what one peer may ask of the gRPC port. */
export interface GrpcLimits {
  readonly maxMessageBytes: number
  /** Concurrent calls of one connection. */
  readonly maxStreams: number
  /** Concurrent calls of all connections of a worker. Once it is reached, each connection may have only `fairStreams`. */
  readonly maxWorkerStreams: number
  readonly fairStreams: number
  /** Size of a header block, both as it is sent and as SETTINGS_MAX_HEADER_LIST_SIZE counts it. */
  readonly maxHeaderBytes: number
  /** Memory of a worker for messages and header blocks that have arrived only in part. */
  readonly maxPartialBytes: number
  /** Bytes of replies of one connection that wait for its flow-control windows. */
  readonly maxWaitingBytes: number
  /** Bytes of replies that wait to be sent on all connections of a worker. Beyond it, connections that are far behind are cut. */
  readonly maxUnsentBytes: number
  /** How many calls under way a connection may cancel: in a burst, and additionally per second. */
  readonly resetBurst: number
  readonly resetsPerSecond: number
  /** How many frames without a call a connection may send: in a burst, and additionally per second and per call. */
  readonly controlBurst: number
  readonly controlsPerSecond: number
  readonly controlsPerCall: number
  /** Age at which a connection is asked to go, so that long-lived ones spread over all workers. Up to a tenth is added at random. */
  readonly maxAgeMs: number
}

export const GRPC_LIMITS: GrpcLimits = {
  maxMessageBytes: 1024 * 1024,
  maxStreams: 1000,
  maxWorkerStreams: 50_000,
  fairStreams: 100,
  maxHeaderBytes: 64 * 1024,
  maxPartialBytes: 64 * 1024 * 1024,
  maxWaitingBytes: 4 * 1024 * 1024,
  maxUnsentBytes: 64 * 1024 * 1024,
  resetBurst: 1000,
  resetsPerSecond: 100,
  controlBurst: 10_000,
  controlsPerSecond: 1000,
  controlsPerCall: 4,
  maxAgeMs: 10 * 60 * 1000,
}

/** Sent to a connection for which there is no slot: an empty SETTINGS frame, and a GOAWAY with ENHANCE_YOUR_CALM and the reason. */
export const NO_SLOT_OVER_HTTP2 = Buffer.concat([settings(), goAway('too_many_connections')])

function settings(): Buffer {
  return Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])
}

function goAway(reason: string): Buffer {
  return Buffer.concat([Buffer.from([0, 0, 8 + reason.length, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11]), Buffer.from(reason)])
}
