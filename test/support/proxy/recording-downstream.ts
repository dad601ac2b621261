import type {
  BodyReader,
  BodySource,
  Downstream,
  DownstreamListener,
  Peer,
  ReceivedHead,
  UpgradedClient,
} from '../../../src/proxy/downstream.ts'
import { bytesOf } from '../llm/bytes-of.ts'

/** A client that notes what is sent to it, and takes as much as the test lets it. */
export class RecordingDownstream implements Downstream {
  readonly received: ReceivedHead
  readonly peer: Peer = { address: '192.0.2.1', scheme: 'http', isTrusted: false }
  readonly body = new RecordedBody()
  readonly canUpgrade = false
  isHeadSent = false
  hasEnded = false
  isGone = false
  writtenBytes = 0
  readonly unsentBytes = 0
  stallMs: number | undefined
  trace: Downstream['trace']
  listener: DownstreamListener | undefined
  /** Whether it takes more than what was written. */
  hasRoom = true
  /** Whether it takes chunks with their frames. */
  relays = false
  /** In the order in which it came: heads, `+` and bytes that were written, `.` and the last of them, what became of the connection. */
  readonly sent: string[] = []

  constructor(received: Partial<ReceivedHead> = {}) {
    this.received = { method: 'GET', target: '/', version: '1.1', fields: ['Host', 'a'], ...received }
  }

  invite(): void {
    this.sent.push('100')
  }

  interim(status: number): void {
    this.sent.push(String(status))
  }

  head(status: number): void {
    this.isHeadSent = true
    this.sent.push(String(status))
  }

  relayChunks(): boolean {
    return this.relays
  }

  write(bytes: Buffer | string): boolean {
    this.writtenBytes += bytes.length
    this.sent.push(`+${bytesOf(bytes)}`)
    return this.hasRoom
  }

  end(last: Buffer | string | undefined, trailers: readonly string[]): void {
    this.sent.push(`.${bytesOf(last ?? '')}`, ...trailers)
  }

  upgrade(): UpgradedClient {
    throw new Error('this client asks for no other protocol')
  }

  closeWhenDone(): void {
    this.sent.push('last')
  }

  limitStall(ms: number): void {
    this.stallMs = ms
  }

  dropBody(): void {
    this.sent.push('drop body')
  }

  reset(): void {
    this.sent.push('reset')
  }

  cut(): void {
    this.sent.push('cut')
  }
}

/** A body that comes when the test says so. */
export class RecordedBody implements BodySource {
  readonly comesNext = false
  isComplete = false
  isRead = false
  isGone = false
  isPaused = true
  idleMs: number | undefined
  reader: BodyReader | undefined

  giveTo(reader: BodyReader | undefined): void {
    this.reader = reader
  }

  pause(): void {
    this.isPaused = true
  }

  resume(): void {
    this.isPaused = false
  }

  limitIdle(ms: number): void {
    this.idleMs = ms
  }
}
