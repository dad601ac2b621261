import type { Socket } from 'node:net'
import { FrontState } from '../../listen/wire-front.ts'
import type { Downstream, Peer } from '../downstream.ts'
import type { ProxiedRequest } from '../proxied-request.ts'
import { FinalHead } from './final-head.ts'
import { RequestHeadReader } from './request-head-reader.ts'

export interface WireHandlers {
  readonly peerOf: (socket: Socket) => Peer
  /** Whether `node:http` serves this path. */
  readonly isOwn: (path: string) => boolean
  readonly handle: (request: ProxiedRequest, downstream: Downstream) => void
  /** Called when bytes that are not a request are refused, or when a connection is cut for too many pipelined requests. */
  readonly noteMalformed: (detail: string) => void
  /** Gives a connection to `node:http` permanently. */
  readonly handOver: (socket: Socket) => void
}

/** State that all connections of a wire share. */
export class WireContext extends FrontState {
  readonly handlers: WireHandlers
  /** How long a client may take nothing of what waits for it; 0 means no limit. */
  readonly stallMs: number
  readonly finalHead: FinalHead
  readonly reader = new RequestHeadReader()
  /** Total of the pipelined bytes that wait on paused connections. */
  heldBytes = 0

  constructor(keepAliveMs: number, stallMs: number, handlers: WireHandlers) {
    super(handlers.handOver)
    this.handlers = handlers
    this.stallMs = stallMs
    this.finalHead = new FinalHead(keepAliveMs)
  }
}
