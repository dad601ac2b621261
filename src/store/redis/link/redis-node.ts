import { Call, LinkError, type Script } from './call.ts'
import { Circuit, IDLE_MS, IdleWatch } from './circuit.ts'
import type { Probe } from './link-options.ts'
import { type ConnectionOptions, errorText, NodeConnection } from './node-connection.ts'
import type { EndedCalls, OnReply, Pipeline } from './pipeline.ts'
import { ReplyError } from './reply-reader.ts'
import type { WriteBatches } from './write-batches.ts'

/** A connection that gives no reply for this long, although it is probed, is replaced. */
const SILENCE_MS = 1000

/** Codes of error replies that are about the keys and say nothing against the node. */
const KEY_ERRORS: ReadonlySet<string> = new Set(['TRYAGAIN', 'CROSSSLOT', 'WRONGTYPE'])

/** How often a call is sent again after NOSCRIPT: by its hash behind a call with the script, then with the script. */
const MAX_RESENT = 2

const UNEXPECTED_REPLY = 'it does not answer like Redis'

export interface NodeOptions extends ConnectionOptions {
  readonly timeoutMs: number
  readonly idleMs?: number
  readonly batches: WriteBatches
  /** Returns undefined if the node serves none of our keys. */
  readonly probe: () => Probe | undefined
  /** Handles a call that another node serves (MOVED, ASK); undefined outside of clusters. */
  readonly redirect: ((call: Call, refusal: LinkError, message: string) => void) | undefined
  /** Called when the circuit has opened, and again with each probe while it is open. */
  readonly onTrouble: () => void
  /** Called when the circuit opened or closed. */
  readonly onChange: () => void
}

/** Sends calls to one server, and keeps its circuit. */
export class RedisNode {
  readonly name: string
  readonly #options: NodeOptions
  readonly #connection: NodeConnection
  readonly #circuit: Circuit
  readonly #idleWatch: IdleWatch
  /** For each script, the last call that was sent with it in full, until that call gets a reply. */
  readonly #loading = new Map<Script, Call>()
  #isProbing = false
  #isClosed = false
  /** When the first call was sent of those that timed out since the last reply; undefined if none did. */
  #silentSinceMs: number | undefined

  constructor(options: NodeOptions) {
    const { name, listener } = options
    this.name = name
    this.#options = options
    listener.onNode(name)
    this.#circuit = new Circuit(
      (isOpen, reason) => listener.onCircuit(name, isOpen, reason),
      () => {
        this.#probe()
        options.onTrouble()
      },
      options.deadlines,
    )
    this.#idleWatch = new IdleWatch(options.idleMs ?? IDLE_MS, () => this.probeIfIdle())
    const onReady = () => {
      this.#silentSinceMs = undefined
      this.#probe()
    }
    this.#connection = new NodeConnection(options, { onReady, onReply: this.#onReply, onDown: this.#onDown })
  }

  get isUsable(): boolean {
    return !this.#circuit.isOpen && !this.#isClosed
  }

  get isConnected(): boolean {
    return this.#connection.pipeline !== undefined
  }

  /** Finds out whether the server still answers. Pending calls notice by themselves if it does not. */
  probeIfIdle(): void {
    if (this.isUsable && this.#connection.pipeline?.isEmpty === true) this.#probe()
  }

  /** Sends a call if there is a connection, or fails it. */
  send(call: Call): void {
    const { pipeline } = this.#connection
    if (pipeline === undefined) return call.fail(new LinkError('not_sent', 'not_connected', `${this.name} is not connected`))
    call.onTimeout = this.#onTimeout
    this.#options.batches.add(call, pipeline)
    pipeline.add(call)
  }

  /** Sends a call that another node refused to serve. Its deadline stays the same. */
  sendRedirected(call: Call, isAsking: boolean, refusal: LinkError): void {
    const { pipeline } = this.#connection
    if (pipeline === undefined) {
      this.#options.listener.onError('reply', this.name, refusal.message)
      return call.fail(refusal)
    }
    call.resentCount = 0
    call.isAsking = isAsking
    this.#sendAgain(call, false, pipeline)
  }

  /** Closes a node that is no longer used, and its circuit first, so that the node does not stay reported as unreachable. */
  retire(reason: string): Promise<void> {
    if (!this.#isClosed) this.#circuit.close(reason)
    return this.close()
  }

  /** Sends what was written, then ends the connection, without a call to the listener. */
  close(): Promise<void> {
    this.#isClosed = true
    this.#circuit.stop()
    this.#idleWatch.stop()
    return this.#connection.close()
  }

  #sendAgain(call: Call, isInFull: boolean, pipeline: Pipeline): void {
    call.onTimeout = this.#onTimeout
    this.#options.batches.flushLater(pipeline)
    if (call.isAsking) pipeline.addAsking()
    pipeline.add(call, isInFull)
  }

  readonly #onReply: OnReply = (call, reply, nowMs) => {
    this.#silentSinceMs = undefined
    this.#idleWatch.noteReply(nowMs)
    if (this.#loading.size > 0) this.#noteLoaded(call)
    if (call.isDone) return
    if (reply instanceof ReplyError) return this.#onFailed(call, reply)
    this.#connection.resetBackoff()
    this.#options.listener.onRoundTrip((nowMs - call.batch!.sentMs) / 1000)
    call.succeed(reply)
  }

  readonly #onDown = (reason: string, { sent, unsent }: EndedCalls): void => {
    this.#loading.clear()
    this.#openCircuit(reason)
    for (const call of sent) call.fail(new LinkError('unknown', 'connection', `${this.name}: ${reason}`))
    for (const call of unsent) call.fail(new LinkError('not_sent', 'connection', `${this.name}: ${reason}`))
  }

  readonly #onTimeout = (call: Call): void => {
    const message = `no answer within ${this.#options.timeoutMs} ms`
    this.#silentSinceMs ??= call.batch!.dueMs - this.#options.timeoutMs
    this.#options.listener.onError('timeout', this.name, message)
    this.#openCircuit(message)
    call.fail(new LinkError('unknown', 'timeout', `${this.name}: ${message}`))
  }

  #onFailed(call: Call, error: ReplyError): void {
    let message = errorText(error, this.#options.address)
    const code = replyCode(message)
    const { pipeline } = this.#connection
    if (code === 'NOSCRIPT' && call.script !== undefined && call.resentCount < MAX_RESENT && pipeline !== undefined)
      return this.#sendWithScript(call, call.script, pipeline)
    if (code === 'MOVED' && this.#options.redirect === undefined) message += ' (it is a cluster: redis+cluster:// names one)'
    const refusal = new LinkError('refused', code, `${this.name}: ${message}`)
    if ((code === 'MOVED' || code === 'ASK') && this.#options.redirect !== undefined) return this.#options.redirect(call, refusal, message)
    this.#options.listener.onError('reply', this.name, message)
    // Decisions are made by scripts, so a plain command that is refused, for example for lack of rights, does not open the circuit.
    if (call.script !== undefined && !KEY_ERRORS.has(code)) this.#onRefused(code, message)
    call.fail(refusal)
  }

  #onRefused(code: string, message: string): void {
    this.#openCircuit(message)
    // This server is a replica: by now, the host name or the sentinels may lead to the master.
    if (code === 'READONLY' && this.isConnected) this.#connection.reconnect()
  }

  /**
   * Sends the script itself, because Redis does not have it (yet, or since a restart or a flush) and so has done nothing. If another call has just sent it,
   * the hash is enough once more: ten thousand calls that were under way would otherwise send ten thousand copies.
   */
  #sendWithScript(call: Call, script: Script, pipeline: Pipeline): void {
    call.resentCount += 1
    const isOnItsWay = this.#loading.has(script) && call.resentCount === 1
    if (!isOnItsWay) this.#loading.set(script, call)
    this.#sendAgain(call, !isOnItsWay, pipeline)
  }

  #noteLoaded(call: Call): void {
    if (call.script !== undefined && this.#loading.get(call.script) === call) this.#loading.delete(call.script)
  }

  #probe(): void {
    if (this.#isProbing || this.#isClosed || !this.isConnected) return
    const probe = this.#options.probe()
    if (probe === undefined) return this.#closeCircuit('it is connected')
    const call = new Call(probe.script, probe.keys, probe.args)
    this.#isProbing = true
    call.reply.then(
      (reply) => {
        this.#isProbing = false
        if (this.#isClosed) return
        if (probe.isValidReply(reply)) return this.#closeCircuit('it answers')
        this.#options.listener.onError('reply', this.name, UNEXPECTED_REPLY)
        this.#openCircuit(UNEXPECTED_REPLY)
      },
      () => {
        this.#isProbing = false
        const sinceMs = this.#silentSinceMs ?? Infinity
        if (this.isConnected && this.#options.deadlines.nowMs() - sinceMs >= SILENCE_MS)
          this.#connection.abort('it is connected but silent')
      },
    )
    this.send(call)
  }

  #openCircuit(reason: string): void {
    if (this.#isClosed) return
    const wasOpen = this.#circuit.isOpen
    this.#circuit.open(reason)
    if (wasOpen) return
    this.#options.onChange()
    this.#options.onTrouble()
  }

  #closeCircuit(reason: string): void {
    this.#circuit.close(reason)
    this.#options.onChange()
  }
}

/**
 * Returns the code at the start of an error reply, such as OOM. Before Redis 7, an error inside a script follows a sentence about the
 * script.
 */
export function replyCode(message: string): string {
  const [, inScript] = /^ERR Error running script.*: -?([A-Z]{2,}) /s.exec(message) ?? []
  return inScript ?? /^[A-Z]+/.exec(message)?.[0] ?? 'ERR'
}
