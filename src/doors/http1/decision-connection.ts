import type { Socket } from 'node:net'
import { answerHeaders, type DecisionAnswer } from '../../decide/decision-answer.ts'
import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import { RateLimitText } from '../../decide/rate-limit-fields.ts'
import { MAX_REREAD_BYTES } from '../../http1/head-reader.ts'
import { INCOMPLETE, OTHER, reasonPhrase } from '../../http1/request-line.ts'
import { READ_BUFFER, shareReads, unshared } from '../../listen/shared-reads.ts'
import { type FrontConnection, FrontState, type FrontTimeouts } from '../../listen/wire-front.ts'
import { flatText } from '../../memory/latin1-text.ts'
import { QuestionHead } from './question-head.ts'

/** The responses of `node:http` when a head does not arrive in time, or when the client ends in the middle of one. */
const TIMED_OUT = 'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n'
const CUT_SHORT = 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n'

/** Answers to pipelined requests are written together, up to well below the 16 KiB at which a socket asks for a pause. */
const BATCH_CHARACTERS = 8 * 1024

const NO_BYTES = Buffer.alloc(0)

type State =
  /** Nothing has arrived yet. */
  | 'silent'
  /** A head has arrived in part. */
  | 'head'
  /** The engine has been asked; what arrives before it answers is put back. */
  | 'deciding'
  /** The client does not read its answers, so nothing is read from it. */
  | 'stalled'
  | 'idle'

/** A connection for as long as it asks only plain questions. */
export class WireConnection implements FrontConnection {
  readonly #context: DecisionWireContext
  readonly #socket: Socket
  readonly #onGone: (socket: Socket) => void
  /** Undefined if every read has a buffer of its own. */
  readonly #unshareReads: (() => void) | undefined
  #state: State = 'silent'
  /** When the current state began; in the state `head`, when the head began. */
  #sinceMs = performance.now()
  #isFirstHead = true
  #hasEnded = false
  /** The partial head, how many bytes were read for it in total, and when its last piece arrived. */
  #partial = NO_BYTES
  #rereadBytes = 0
  #lastPieceMs = 0
  /** Unsent bytes of a stalled client at the last check. */
  #unsent = 0
  readonly #onData = (chunk: Buffer): void => this.#read(chunk, chunk.length)
  readonly #onEnd = (): void => this.#end()
  readonly #onDrain = (): void => this.#goOn()
  readonly #onClose = (): void => this.#onGone(this.#socket)

  /** `onGone` is called when the connection has closed or `node:http` has taken it over. */
  constructor(context: DecisionWireContext, socket: Socket, onGone: (socket: Socket) => void) {
    this.#context = context
    this.#socket = socket
    this.#onGone = onGone
    this.#unshareReads = shareReads(socket, (length) => this.#read(READ_BUFFER, length))
    // If reads are shared, only bytes that were put back arrive as 'data'.
    socket.on('data', this.#onData)
    socket.on('end', this.#onEnd)
    socket.on('error', ignore)
    socket.on('close', this.#onClose)
  }

  get isServing(): boolean {
    return this.#state === 'deciding' || this.#state === 'stalled' || this.#socket.writableLength > 0
  }

  check(nowMs: number, { headMs, idleMs }: FrontTimeouts): void {
    const waitedMs = nowMs - this.#sinceMs
    switch (this.#state) {
      case 'silent':
        if (waitedMs > headMs) this.#refuse(TIMED_OUT)
        break
      case 'head':
        if (waitedMs > headMs) this.#refuse(TIMED_OUT)
        else if (!this.#isFirstHead && nowMs - this.#lastPieceMs > idleMs) this.#socket.destroy()
        break
      case 'stalled':
        if (this.#keepsReading()) this.#sinceMs = nowMs
        else if (waitedMs > idleMs) this.#socket.destroy()
        break
      case 'idle':
        if (waitedMs > idleMs) this.#socket.destroy()
        break
      case 'deciding':
    }
  }

  /** Whether fewer bytes are unsent than at the last check. */
  #keepsReading(): boolean {
    const before = this.#unsent
    this.#unsent = this.#socket.writableLength
    return this.#unsent < before
  }

  drain(): void {
    if (this.#state === 'silent' || this.#state === 'head') this.#handOver(this.#partial)
  }

  closeIfIdle(): void {
    if (this.#state === 'idle' && this.#socket.writableLength === 0) this.#socket.destroy()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  /** `chunk` may be the shared read buffer, so whatever is needed beyond this turn must be copied. */
  #read(chunk: Buffer, length: number): void {
    const context = this.#context
    if (this.#state === 'deciding') return this.#pause(chunk.subarray(0, length))
    if (context.isDraining) return this.#handOver(chunk.subarray(0, length))
    const isContinued = this.#state === 'head'
    const bytes = isContinued ? Buffer.concat([this.#partial, chunk.subarray(0, length)]) : chunk
    const end = isContinued ? bytes.length : length
    const { reader } = context
    reader.begin(bytes, end)
    let text = ''
    let at = 0
    while (at < end) {
      const next = reader.read(at)
      if (next === INCOMPLETE || next === OTHER) return this.#leaveOff(text, bytes.subarray(at, end), next)
      at = next
      const answer = context.decide(reader)
      if (answer instanceof Promise) return this.#await(answer, reader, text, bytes.subarray(at, end))
      text += context.textOf(answer)
      if (text.length < BATCH_CHARACTERS) continue
      if (!this.#answer(text)) return this.#stall(bytes.subarray(at, end))
      text = ''
    }
    if (text !== '' && !this.#answer(text)) this.#stall(NO_BYTES)
  }

  /** Sends the answers so far; then `rest`, which is not a whole plain head, is kept or handed over. */
  #leaveOff(text: string, rest: Buffer, why: typeof INCOMPLETE | typeof OTHER): void {
    const keepsUp = text === '' || this.#answer(text)
    if (why === OTHER) this.#handOver(rest)
    else if (keepsUp) this.#collect(rest)
    else this.#stall(rest)
  }

  /** Returns false if the client does not keep up. */
  #answer(text: string): boolean {
    this.#state = 'idle'
    this.#sinceMs = this.#context.roughMs
    this.#isFirstHead = false
    if (this.#rereadBytes > 0) {
      this.#partial = NO_BYTES
      this.#rereadBytes = 0
    }
    return this.#socket.write(text, 'latin1')
  }

  #collect(part: Buffer): void {
    this.#rereadBytes += part.length
    if (this.#rereadBytes > MAX_REREAD_BYTES) return this.#handOver(part)
    this.#lastPieceMs = performance.now()
    if (this.#state === 'idle') this.#sinceMs = this.#lastPieceMs
    this.#state = 'head'
    // The copy is exact and unpooled, so that a few bytes do not keep the whole read alive.
    this.#partial = Buffer.allocUnsafeSlow(part.length)
    part.copy(this.#partial)
  }

  /**
   * Handles one question at a time, so that answers keep their order and further questions stay in the socket. Most clients wait for the answer; so the
   * socket is paused only when something arrives, because a pause and its end are two more calls of the system.
   */
  #await(answer: Promise<DecisionAnswer>, reader: QuestionHead, text: string, rest: Buffer): void {
    if (text !== '') this.#answer(text)
    this.#state = 'deciding'
    this.#context.takeReader()
    if (rest.length > 0) this.#pause(rest)
    void answer.then((later) => {
      this.#context.giveBack(reader)
      if (this.#socket.destroyed) return
      const keepsUp = this.#answer(this.#context.textOf(later))
      if (this.#hasEnded) this.#socket.end()
      else if (!keepsUp) this.#stall(NO_BYTES)
      else if (this.#socket.isPaused()) this.#socket.resume()
    })
  }

  #stall(rest: Buffer): void {
    this.#state = 'stalled'
    this.#pause(rest)
    this.#socket.once('drain', this.#onDrain)
  }

  #goOn(): void {
    this.#state = 'idle'
    this.#sinceMs = this.#context.roughMs
    this.#socket.resume()
  }

  /** Puts the rest back into the socket. It arrives again as if just read, and before the client's end, if that has arrived. */
  #pause(rest: Buffer): void {
    this.#socket.pause()
    if (rest.length > 0) this.#socket.unshift(unshared(rest))
  }

  #end(): void {
    this.#hasEnded = true
    if (this.#state === 'head') this.#refuse(CUT_SHORT)
    else if (this.#state !== 'deciding') this.#socket.end()
  }

  #refuse(text: string): void {
    this.#socket.write(text, 'latin1')
    this.#socket.destroy()
  }

  #handOver(rest: Buffer): void {
    const socket = this.#socket
    socket.off('data', this.#onData)
    socket.off('end', this.#onEnd)
    socket.off('error', ignore)
    socket.off('close', this.#onClose)
    this.#unshareReads?.()
    this.#onGone(socket)
    this.#context.handOver(socket)
    if (rest.length > 0) socket.unshift(unshared(rest))
  }
}

function ignore(): void {
  // 'close' follows
}

/** Unused readers that are kept. More are in use at a time only while a store is slow. */
const MAX_IDLE_READERS = 64

/** State that all connections of the fast wire share. */
export class DecisionWireContext extends FrontState {
  readonly #pipeline: DecisionPipeline
  readonly #text: AnswerText
  readonly #readers: QuestionHead[] = [new QuestionHead()]

  constructor(pipeline: DecisionPipeline, keepAliveMs: number, handOver: (socket: Socket) => void) {
    super(handOver)
    this.#pipeline = pipeline
    this.#text = new AnswerText(keepAliveMs)
  }

  /** A reader that is not in use. Whoever needs it beyond this turn must call `takeReader`. */
  get reader(): QuestionHead {
    return this.#readers.at(-1)!
  }

  takeReader(): void {
    this.#readers.pop()!.keepHead()
    if (this.#readers.length === 0) this.#readers.push(new QuestionHead())
  }

  giveBack(reader: QuestionHead): void {
    reader.clear()
    if (this.#readers.length < MAX_IDLE_READERS) this.#readers.push(reader)
  }

  decide(question: QuestionHead): DecisionAnswer | Promise<DecisionAnswer> {
    return this.#pipeline.decide(question)
  }

  textOf(answer: DecisionAnswer): string {
    return this.#text.of(answer)
  }
}

/** Writes answers byte for byte as `node:http` does on a keep-alive connection. */
class AnswerText {
  readonly #keepAlive: string
  readonly #statusLines = new Map<number, string>()
  /** Writes the usual answer, an allowed request with a limit. */
  readonly #allowed = new RateLimitText('HTTP/1.1 200 OK\r\n')
  /** The header fields at the end of all answers of the current second. */
  #ending: string | undefined

  constructor(keepAliveMs: number) {
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1000)}\r\n\r\n`
  }

  of(answer: DecisionAnswer): string {
    const { status, decision, isDebug, reservation, removedFields } = answer
    const ending = this.#ending ?? this.#newEnding()
    const isUsual = !isDebug && reservation === undefined && removedFields === undefined
    if (isUsual && decision?.action === 'allow' && decision.limit !== undefined) return this.#allowed.of(decision.limit) + ending
    const headers = answerHeaders(answer)
    let text = this.#statusLine(status)
    for (let i = 0; i < headers.length; i += 2) text += `${headers[i]}: ${headers[i + 1]}\r\n`
    return text + ending
  }

  #statusLine(status: number): string {
    let line = this.#statusLines.get(status)
    if (line === undefined) {
      line = `HTTP/1.1 ${status} ${reasonPhrase(status)}\r\n`
      this.#statusLines.set(status, line)
    }
    return line
  }

  #newEnding(): string {
    const now = new Date()
    this.#ending = flatText(`Content-Length: 0\r\nDate: ${now.toUTCString()}\r\n${this.#keepAlive}`)
    // One timer per second costs less than reading the clock for each answer.
    setTimeout(() => {
      this.#ending = undefined
    }, 1000 - now.getMilliseconds()).unref()
    return this.#ending
  }
}
