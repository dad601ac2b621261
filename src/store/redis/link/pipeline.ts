import type { Duplex } from 'node:stream'
import type { Call } from './call.ts'
import { CommandBytes } from './command-bytes.ts'
import { ProtocolError, ReplyReader } from './reply-reader.ts'

/** Called with each reply, and when its bytes arrived. */
export type OnReply = (call: Call, reply: unknown, nowMs: number) => void

/** Calls that were on a connection when it ended. Those that were sent may have been done. */
export interface EndedCalls {
  readonly sent: readonly Call[]
  readonly unsent: readonly Call[]
}

const [CR, LF] = [0x0d, 0x0a]

/** How many answered calls are dropped at a time, at least. */
const MIN_DROPPED = 1024

/**
 * The calls on one connection that is ready: they are collected until `flush`, and replies arrive in the order in which calls were added. It
 * replaces the client that made the connection, which does much for each command that decisions do not need.
 */
export class Pipeline {
  readonly #stream: Duplex
  readonly #onReply: OnReply
  readonly #reader: ReplyReader
  /** Calls without a reply, from `#first` on. Undefined stands for a command whose reply nobody needs. */
  #calls: (Call | undefined)[] = []
  #first = 0
  /** Calls from here on are not written yet. */
  #firstUnsent = 0
  readonly #unsent = new CommandBytes()
  #nowMs = 0
  /** The client takes its last reply for complete before the end of its line has arrived. */
  #mayEndLine = true

  constructor(stream: Duplex, onReply: OnReply) {
    this.#stream = stream
    this.#onReply = onReply
    this.#reader = new ReplyReader(
      (reply) => this.#onNext(reply),
      () => this.#calls[this.#first]?.script?.repliesNumbers === true,
    )
    stream.removeAllListeners('data')
    stream.on('data', (chunk: Buffer) => this.#read(chunk))
  }

  get isEmpty(): boolean {
    return this.#first === this.#calls.length
  }

  /** Adds a call; `isInFull`: with its script instead of the hash. */
  add(call: Call, isInFull = false): void {
    call.writeTo(this.#unsent, isInFull)
    this.#calls.push(call)
  }

  /** Adds the command that lets a node serve the next call for a slot that is being moved to it. */
  addAsking(): void {
    this.#unsent.begin(1)
    this.#unsent.add('asking')
    this.#calls.push(undefined)
  }

  /** Writes what was added, unless the stream has been ended meanwhile. */
  flush(): void {
    if (this.#unsent.length === 0 || !this.#stream.writable) return
    const bytes = this.#unsent.take()
    this.#firstUnsent = this.#calls.length
    this.#stream.write(bytes)
    // The kernel has a copy of what is no longer in the stream.
    if (this.#stream.writableLength === 0) this.#unsent.keep(bytes)
  }

  /** Removes and returns the calls without a reply, because none can arrive any more. */
  end(): EndedCalls {
    const sent = this.#calls.slice(this.#first, this.#firstUnsent).filter((call) => call !== undefined)
    const unsent = this.#calls.slice(this.#firstUnsent).filter((call) => call !== undefined)
    this.#calls = []
    this.#first = 0
    this.#firstUnsent = 0
    this.#unsent.clear()
    return { sent, unsent }
  }

  #read(chunk: Buffer): void {
    this.#nowMs = performance.now()
    try {
      this.#reader.read(this.#mayEndLine ? this.#withoutLineEnd(chunk) : chunk)
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error
      this.#stream.removeAllListeners('data')
      this.#stream.destroy(error)
    }
  }

  #withoutLineEnd(chunk: Buffer): Buffer {
    let at = 0
    while (chunk[at] === CR || chunk[at] === LF) at++
    if (at < chunk.length) this.#mayEndLine = false
    return chunk.subarray(at)
  }

  #onNext(reply: unknown): void {
    if (this.#first === this.#firstUnsent) throw new ProtocolError('it sends replies that nobody asked for')
    const call = this.#calls[this.#first]
    this.#calls[this.#first++] = undefined
    if (this.#first >= MIN_DROPPED && this.#first * 2 >= this.#calls.length) this.#dropAnswered()
    if (call !== undefined) this.#onReply(call, reply, this.#nowMs)
  }

  /** Each call is moved at most once, on average, because at least half of them are dropped. */
  #dropAnswered(): void {
    this.#calls = this.#calls.slice(this.#first)
    this.#firstUnsent -= this.#first
    this.#first = 0
  }
}
