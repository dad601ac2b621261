import type { Socket } from 'node:net'
import { MAX_REREAD_BYTES, RecentHead } from '../../http1/head-fields.ts'
import { INCOMPLETE, malformedStatus, OTHER } from '../../http1/request-line.ts'
import type { ListenerTimeouts } from '../../listen/http-listener.ts'
import { READ_BUFFER, shareReads, unshared } from '../../listen/shared-reads.ts'
import { type FrontConnection, type FrontTimeouts, WireFront } from '../../listen/wire-front.ts'
import { malformedResponse } from '../downstream.ts'
import { MalformedChunks } from './chunked-frames.ts'
import { ClientDeadlines, type ClientState } from './client-deadlines.ts'
import { ReadPause, UnreadBytes } from './unread-bytes.ts'
import { WireBody } from './wire-body.ts'
import { type PlainProxyRequest, plainRequest, WireContext, type WireHandlers } from './wire-context.ts'
import { WireDownstream } from './wire-downstream.ts'

/** With this much unread, a connection is not read any further. Below that it is, because a client that leaves is noticed only on one that is read. */
const READ_AHEAD_BYTES = 16 * 1024

/** In the words of Node's parser. */
const ENDED = 'Parse Error'
const BEHIND_LAST = 'Parse Error: Data after `Connection: close`'

/** A client's connection for as long as it sends nothing but plain requests. One at a time is under way; what comes behind it waits, undecided. */
class WireClient implements FrontConnection {
  readonly #context: WireContext
  readonly #socket: Socket
  readonly #onGone: (socket: Socket) => void
  /** Undefined where every read has a buffer of its own. */
  readonly #unshareReads: (() => void) | undefined
  readonly #unread: UnreadBytes
  readonly #body: WireBody
  readonly #downstream: WireDownstream
  readonly #pause: ReadPause
  readonly #deadlines: ClientDeadlines
  #state: ClientState = 'silent'
  readonly #recent = new RecentHead<PlainProxyRequest>()
  /** How much was read for the head that is here in part. */
  #rereadBytes = 0
  /** The unread bytes have waited for the response to an earlier request. */
  #isPipelined = false
  #isReading = false
  #isScheduled = false
  readonly #onData = (chunk: Buffer): void => this.#read(chunk, chunk.length)
  readonly #onEnd = (): void => this.#end()
  readonly #onDrain = (): void => this.#drained()
  readonly #onClose = (): void => this.#close()
  readonly #goOn = (): void => this.#readOn()

  /** `onGone`: it is closed, or `node:http` has it. */
  constructor(context: WireContext, socket: Socket, onGone: (socket: Socket) => void) {
    this.#context = context
    this.#socket = socket
    this.#onGone = onGone
    this.#unread = new UnreadBytes()
    this.#pause = new ReadPause(context, socket)
    this.#body = new WireBody(context, this.#unread, () => this.#schedule())
    this.#downstream = new WireDownstream(socket, {
      context,
      peer: context.handlers.peerOf(socket),
      body: this.#body,
      onEnded: () => this.#onResponded(),
      onDropped: () => this.#dropBody(),
    })
    this.#deadlines = new ClientDeadlines(socket, this.#body, this.#downstream)
    this.#unshareReads = shareReads(socket, (length) => this.#read(READ_BUFFER, length))
    // Where reads are shared, what was put back comes this way.
    socket.on('data', this.#onData)
    socket.on('end', this.#onEnd)
    socket.on('drain', this.#onDrain)
    socket.on('error', ignore)
    socket.on('close', this.#onClose)
  }

  /** Whether a request is in flight on it, or a part of a response is not sent yet. */
  get isServing(): boolean {
    return (this.#state === 'busy' && !this.#downstream.isEnded) || this.#socket.writableLength > 0
  }

  check(nowMs: number, timeouts: FrontTimeouts): void {
    const overdue = this.#deadlines.overdue(this.#state, nowMs, timeouts)
    if (overdue === 'head') this.#refuse('408 Request Timeout', 'Request timeout')
    else if (overdue !== undefined) this.#socket.destroy()
  }

  drain(): void {
    if (this.#state === 'silent' || this.#state === 'head') this.#handOver(this.#unread.take())
  }

  closeIfIdle(): void {
    if (this.#state === 'idle' && this.#unread.size === 0 && this.#socket.writableLength === 0) this.#socket.destroy()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  /** `chunk` may be shared: what is needed beyond this turn is copied. */
  #read(chunk: Buffer, length: number): void {
    this.#body.idleSinceMs = this.#context.roughMs
    if (this.#state === 'closing') return
    if (this.#unread.size > 0) {
      this.#unread.add(chunk, 0, length)
      if (this.#state === 'head') this.#readOn()
    } else {
      const wasAnswered = this.#state === 'busy' && this.#downstream.isEnded
      const rest = this.#readBytes(chunk, 0, length)
      if (rest < length && this.#isOpen) this.#unread.add(chunk, rest, length)
      this.#isPipelined = !wasAnswered
      if (this.#state === 'idle') this.#schedule()
    }
    if (this.#unread.size >= READ_AHEAD_BYTES) this.#stopReading()
  }

  /** Reads as much of the waiting bytes as is allowed now. */
  #readOn(): void {
    this.#isScheduled = false
    // One that is broken off is closed only later.
    if (this.#socket.destroyed) return
    const { buffer, at, end } = this.#unread
    if (at < end) {
      const rest = this.#readBytes(buffer, at, end)
      if (!this.#isOpen) return this.#unread.clear()
      this.#unread.readTo(rest)
      if (this.#state === 'idle') this.#schedule()
    }
    if (this.#unread.size < READ_AHEAD_BYTES) this.#pause.end()
    if (this.#downstream.hasEnded) this.#checkEnd()
  }

  get #isOpen(): boolean {
    return this.#state !== 'closing' && this.#state !== 'gone'
  }

  /** Reads what may be read now, and returns where that ends. */
  #readBytes(bytes: Buffer, from: number, end: number): number {
    let at = from
    this.#isReading = true
    while (at < end && this.#isOpen) {
      if (this.#state === 'busy') {
        if (!this.#body.isFlowing || this.#body.isRead) break
        at = this.#readBody(bytes, at, end)
      } else {
        // A request a turn: others have theirs between those of a pipeline.
        if (at > from || this.#downstream.isBlocked) break
        at = this.#readHead(bytes, at, end)
        if (at === from) break
      }
    }
    this.#isReading = false
    return at
  }

  /** Returns where the head ends, or `from` if it is incomplete or for `node:http`. */
  #readHead(bytes: Buffer, from: number, end: number): number {
    if (this.#body.isLast) {
      this.#refuse('400 Bad Request', BEHIND_LAST)
      return end
    }
    const { reader, handlers, isDraining } = this.#context
    const recent = isDraining ? undefined : this.#recent.find(bytes, from, end)
    const next = isDraining ? OTHER : recent === undefined ? reader.read(bytes, from, end) : from + this.#recent.length
    if (next === INCOMPLETE && this.#rereadBytes < MAX_REREAD_BYTES) {
      this.#awaitHead(end - from)
      return from
    }
    const plain = recent ?? (next < 0 ? undefined : plainRequest(reader.received))
    if (plain === undefined || handlers.isOwn(plain.path)) {
      this.#handOver(bytes.subarray(from, end))
      return from
    }
    const { request } = plain
    const isPipelined = this.#isPipelined && this.#state === 'idle' && bytes === this.#unread.buffer
    this.#isPipelined = true
    this.#state = 'busy'
    this.#deadlines.onRequest()
    this.#rereadBytes = 0
    if (recent === undefined) this.#recent.keep(reader.text, plain)
    this.#body.begin(request.contentLength ?? 0, request.isChunked)
    this.#downstream.begin(plain.received)
    // Bytes that have waited may be known to be malformed by now: then the request never begins.
    if (isPipelined && !this.#canBeBody(bytes, next, end)) return next
    // Of a chunked body, only a part of a size line may have arrived.
    this.#body.comesNext = next < end && !request.isChunked
    handlers.handle(request, this.#downstream)
    this.#body.comesNext = false
    return next
  }

  #canBeBody(bytes: Buffer, from: number, end: number): boolean {
    try {
      this.#body.endsWithin(bytes, from, end)
      return true
    } catch (error) {
      this.#refuseMalformed(error)
      return false
    }
  }

  #awaitHead(bytes: number): void {
    this.#rereadBytes += bytes
    this.#deadlines.onPartOfHead(this.#state === 'idle', this.#context.roughMs)
    this.#state = 'head'
  }

  /** Returns where what is here of the body ends. */
  #readBody(bytes: Buffer, from: number, end: number): number {
    try {
      const next = this.#body.read(bytes, from, end)
      if (this.#body.isRead && this.#downstream.isEnded) this.#complete()
      return next
    } catch (error) {
      this.#refuseMalformed(error)
      return end
    }
  }

  #refuseMalformed(error: unknown): void {
    if (!(error instanceof MalformedChunks)) throw error
    this.#refuseBody(malformedStatus(error), `Parse Error: ${error.message}`)
  }

  /** All of the response was written. */
  #onResponded(): void {
    if (this.#state !== 'busy') return
    if (this.#body.isRead) return this.#complete()
    if (!this.#body.isDropped && this.#downstream.isLast) return this.#closeSoon()
    this.#dropBody()
    // Behind the last response the rest is still read for a while: else the client might be reset before it has read that (RFC 9112 9.6).
    if (this.#downstream.isLast) this.#socket.end()
  }

  /** Nobody wants the rest of the body, which stands between this response and the next. */
  #dropBody(): void {
    if (this.#body.isRead || this.#body.isDropped) return
    this.#deadlines.onBodyDropped(this.#downstream.dropStallMs)
    this.#body.drop()
  }

  /** The request was read and its response written, both to the end. */
  #complete(): void {
    this.#deadlines.onComplete(this.#context.roughMs)
    if (this.#downstream.isLast) return this.#closeSoon()
    this.#state = 'idle'
    if (this.#isReading) return
    if (this.#unread.size > 0) this.#schedule()
    else if (this.#downstream.hasEnded) this.#checkEnd()
  }

  /** Goes on with what waits, in a turn of its own. */
  #schedule(): void {
    if (this.#isReading || this.#isScheduled || this.#downstream.isBlocked || (this.#unread.size === 0 && !this.#pause.isOn)) return
    this.#isScheduled = true
    setImmediate(this.#goOn)
  }

  #drained(): void {
    this.#downstream.onDrain()
    if (this.#state === 'idle') this.#schedule()
  }

  #stopReading(): void {
    if (this.#isOpen) this.#pause.begin(this.#body.isRead ? this.#unread.size : 0)
  }

  #end(): void {
    this.#downstream.onClientEnded()
    if (!this.#isScheduled) this.#checkEnd()
  }

  /** The client has ended its side, and what can be read for now was read. */
  #checkEnd(): void {
    if (this.#state === 'head') this.#refuse('400 Bad Request', ENDED)
    else if (this.#state === 'busy') {
      if (!this.#body.isComplete) this.#refuseBody('400 Bad Request', ENDED)
    } else if (this.#isOpen && this.#unread.size === 0) this.#closeSoon()
  }

  /** The body is malformed, or will never be whole. */
  #refuseBody(status: string, detail: string): void {
    const { isHeadSent, isEnded } = this.#downstream
    // What begins behind a response that is whole gets one of its own.
    if ((isHeadSent && !isEnded) || !this.#socket.writable) this.#socket.destroy()
    else this.#refuse(status, detail)
  }

  #refuse(status: string, detail: string): void {
    this.#context.handlers.noteMalformed(detail)
    this.#state = 'closing'
    this.#deadlines.onRefused()
    this.#socket.end(malformedResponse(status, 'the request is malformed'), 'latin1')
    this.#letGo()
    this.#downstream.onClientGone()
  }

  #closeSoon(): void {
    const hasMore = this.#pause.isOn
    this.#state = 'closing'
    this.#letGo()
    // What was left unread is read and thrown away for a while: else the client might be reset before it has read its response (RFC 9112 9.6).
    if (hasMore) this.#socket.end()
    else this.#socket.destroySoon()
  }

  /** The waiting bytes are not needed any more. */
  #letGo(): void {
    this.#unread.clear()
    this.#pause.end()
  }

  #close(): void {
    this.#state = 'gone'
    this.#unread.clear()
    this.#pause.end()
    this.#onGone(this.#socket)
    this.#downstream.onClientGone()
  }

  #handOver(bytes: Buffer): void {
    const socket = this.#socket
    this.#state = 'gone'
    socket.off('data', this.#onData)
    socket.off('end', this.#onEnd)
    socket.off('drain', this.#onDrain)
    socket.off('error', ignore)
    socket.off('close', this.#onClose)
    this.#unshareReads?.()
    this.#onGone(socket)
    this.#context.handOver(socket)
    giveBack(socket, bytes, this.#downstream.hasEnded)
    this.#pause.end()
  }
}

function ignore(): void {
  // a 'close' follows
}

export type ProxyWire = WireFront<WireClient>

/**
 * The proxy's own wire.
 * `silenceMs`: how long a client may be silent in the middle of a request, or take nothing of its response; 0: for ever.
 */
export function newProxyWire(timeouts: ListenerTimeouts, silenceMs: number, handlers: WireHandlers): ProxyWire {
  const context = new WireContext(timeouts.keepAliveMs, silenceMs, handlers)
  return new WireFront(timeouts, context, (socket, onGone) => new WireClient(context, socket, onGone), silenceMs)
}

/** Has a socket that is handed over bring what was read of it once more, before all that is still to be read. */
function giveBack(socket: Socket, bytes: Buffer, hasEnded: boolean): void {
  const own = unshared(bytes)
  if (!hasEnded) {
    if (own.length > 0) socket.unshift(own)
    return
  }
  // An ended stream accepts nothing back, so its events are emitted again.
  socket.emit('data', own)
  socket.emit('end')
}
