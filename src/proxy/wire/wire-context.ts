import type { Socket } from 'node:net'
import { FrontState } from '../../listen/wire-front.ts'
import type { Downstream } from '../downstream.ts'
import type { Peer } from '../peer.ts'
import type { ProxiedRequest } from '../proxied-request.ts'
import { FinalHead } from './final-head.ts'
import { RequestHeadReader } from './request-head-reader.ts'

export interface WireHandlers {
  readonly peerOf: (socket: Socket) => Peer
  /** Paths that `node:http` serves. */
  readonly isOwn: (path: string) => boolean
  readonly handle: (request: ProxiedRequest, downstream: Downstream) => void
  /** Something came that is no request, and has its response already. */
  readonly noteMalformed: (detail: string) => void
  /** Gives a connection to `node:http`, for good. */
  readonly handOver: (socket: Socket) => void
}

/** What all connections of a wire share. */
export class WireContext extends FrontState {
  readonly handlers: WireHandlers
  /** How long a client may take nothing of what waits for it; 0: for ever. */
  readonly stallMs: number
  readonly finalHead: FinalHead
  readonly reader = new RequestHeadReader()
  /** The bytes that wait on connections which are paused because of them. */
  heldBytes = 0

  constructor(keepAliveMs: number, stallMs: number, handlers: WireHandlers) {
    super(handlers.handOver)
    this.handlers = handlers
    this.stallMs = stallMs
    this.finalHead = new FinalHead(keepAliveMs)
  }
}
