/** What one peer may ask of the gRPC port. */
export interface GrpcLimits {
  readonly maxMessageBytes: number
  /** Of one connection at a time. */
  readonly maxStreams: number
  /** Of all connections of a worker. Beyond it, a connection may have `fairStreams`. */
  readonly maxWorkerStreams: number
  readonly fairStreams: number
  /** Of a block of header fields: as it is sent, and as HTTP/2 counts it when it is decoded. */
  readonly maxHeaderBytes: number
  /** Messages and blocks of header fields that have come in part, all calls of a worker together. */
  readonly maxPartialBytes: number
  /** Replies of one connection that wait for its flow-control windows. */
  readonly maxWaitingBytes: number
  /** Replies that wait to be sent, all connections of a worker together. Beyond it, those that are far behind are cut. */
  readonly maxUnsentBytes: number
  /** Calls that a connection may cancel while they are under way: at once, and how many more each second. */
  readonly resetBurst: number
  readonly resetsPerSecond: number
  /** Frames of a connection that carry no call: at once, and how many more each second and for each call. */
  readonly controlBurst: number
  readonly controlsPerSecond: number
  readonly controlsPerCall: number
  /** A connection is asked to go when it is so old, so that long-lived ones spread over all workers. Up to a tenth more, by chance. */
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

/** To a connection for which there is no slot: no settings, and GOAWAY with ENHANCE_YOUR_CALM and the reason. */
export const NO_SLOT_OVER_HTTP2 = Buffer.concat([settings(), goAway('too_many_connections')])

function settings(): Buffer {
  return Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])
}

function goAway(reason: string): Buffer {
  return Buffer.concat([Buffer.from([0, 0, 8 + reason.length, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11]), Buffer.from(reason)])
}
