import { Command, type Redis, ReplyError } from 'ioredis'
import { Backoff } from './backoff.ts'
import { Call, type Script } from './call.ts'
import { Circuit } from './circuit.ts'
import { ConnectWatch } from './connect-watch.ts'
import type { Departures } from './departures.ts'
import { errorText } from './error-text.ts'
import { IdleWatch } from './idle-watch.ts'
import { LinkError } from './link-error.ts'
import { createNodeClient, endClient } from './node-client.ts'
import type { Endpoint, RedisAddress } from './redis-address.ts'
import type { LinkListener } from './redis-link.ts'
import { replyCode } from './reply-code.ts'

/** A connection that is up but silent for so long, while it is probed, is made anew. */
const SILENCE_MS = 1000

/** Error replies that speak of the keys, not of the node. */
const NODE_SERVES: ReadonlySet<string> = new Set(['TRYAGAIN', 'CROSSSLOT', 'WRONGTYPE'])

const STRANGE = 'it does not answer like Redis'

export interface Probe {
  readonly script: Script
  readonly keys: readonly string[]
  readonly args: readonly string[]
  /** Whether this is what the script answers. */
  readonly isAnswer: (reply: unknown) => boolean
}

export interface NodeOptions {
  readonly name: string
  readonly address: RedisAddress
  /** Undefined: the master that the sentinels name. */
  readonly endpoint: Endpoint | undefined
  readonly timeoutMs: number
  readonly departures: Departures
  readonly listener: LinkListener
  /** Undefined: there is no key of ours that this node would serve. */
  readonly probe: () => Probe | undefined
  /** What to do with a call that the node says another one serves; undefined outside of clusters. */
  readonly redirect: ((call: Call, refusal: LinkError, message: string) => void) | undefined
  /** The circuit has opened, or is open and about to be probed once more. */
  readonly onTrouble: () => void
  /** The circuit opened or closed. */
  readonly onChange: () => void
}

/** The connection to one server, and what is known of it. */
export class RedisNode {
  readonly name: string
  readonly #options: NodeOptions
  readonly #client: Redis
  readonly #circuit: Circuit
  readonly #connectWatch: ConnectWatch
  readonly #idleWatch: IdleWatch
  readonly #backoff = new Backoff(50, 1000)
  #reconnectTimer: NodeJS.Timeout | undefined
  #unanswered = 0
  #isProbing = false
  #isClosed = false
  /** When the first call left that is waited for in vain; undefined when something came since. */
  #silentSinceMs: number | undefined
  /** Why the connection is about to end. */
  #failure: string | undefined
  /** Why the last sentinel was of no help. */
  #sentinelFailure: string | undefined

  constructor(options: NodeOptions) {
    this.name = options.name
    this.#options = options
    options.listener.onNode(this.name)
    this.#client = createNodeClient(options.address, options.endpoint)
    this.#circuit = new Circuit(this.#tell, () => {
      this.#probe()
      options.onTrouble()
    })
    this.#client.on('error', this.#onError)
    this.#client.on('sentinelError', (error: Error) => {
      this.#sentinelFailure = errorText(error, options.address)
    })
    this.#client.on('ready', () => {
      this.#silentSinceMs = undefined
      this.#probe()
    })
    this.#client.on('end', this.#onEnd)
    this.#connectWatch = new ConnectWatch(this.#client, options.address.isTls, options.endpoint === undefined)
    this.#idleWatch = new IdleWatch(() => {
      // Calls under way find out by themselves.
      if (this.isUsable && this.#unanswered === 0) this.#probe()
    })
    this.#connect()
  }

  get isUsable(): boolean {
    return !this.#circuit.isOpen && !this.#isClosed
  }

  get isConnected(): boolean {
    return this.#client.status === 'ready' && this.#client.stream.writable
  }

  /** Sends a call, if there is a connection. */
  ask(call: Call): void {
    if (!this.isConnected) return call.fail(new LinkError('not_sent', 'not_connected', `${this.name} is not connected`))
    this.#options.departures.board(call, this.#client.stream)
    this.#send(call, call.name, call.args)
  }

  /** Sends a call that another node refused to serve. Its time goes on. */
  takeOver(call: Call, isAsking: boolean, refusal: LinkError): void {
    if (!this.isConnected) {
      this.#options.listener.onError('reply', this.name, refusal.message)
      return call.fail(refusal)
    }
    this.#options.departures.hold(this.#client.stream)
    if (isAsking) this.#client.asking().catch(ignore)
    this.#send(call, call.name, call.args)
  }

  onExpired(call: Call): void {
    const message = `no answer within ${this.#options.timeoutMs} ms`
    this.#silentSinceMs ??= call.departure!.sentMs
    this.#options.listener.onError('timeout', this.name, message)
    this.#open(message)
    call.fail(new LinkError('unknown', 'timeout', `${this.name}: ${message}`))
  }

  /** Nobody is to ask it any more: its circuit does not stay open. */
  retire(reason: string): Promise<void> {
    if (!this.#isClosed) this.#circuit.close(reason)
    return this.close()
  }

  /** Ends the connection, what was written is still sent; nothing is told. Done when it has ended, or was given up. */
  close(): Promise<void> {
    this.#isClosed = true
    this.#circuit.stop()
    this.#connectWatch.stop()
    this.#idleWatch.stop()
    clearTimeout(this.#reconnectTimer)
    return endClient(this.#client)
  }

  #connect(): void {
    this.#failure = undefined
    this.#sentinelFailure = undefined
    // Its failure comes as events too.
    this.#client.connect().catch(ignore)
  }

  #send(call: Call, name: string, args: readonly string[]): void {
    call.node = this
    const command = new Command(name, args as string[], { replyEncoding: 'utf8' })
    this.#client.sendCommand(command)
    this.#unanswered += 1
    command.promise.then(
      (reply) => {
        this.#unanswered -= 1
        const nowMs = performance.now()
        this.#noteHeard(nowMs)
        if (call.isDone) return
        this.#backoff.reset()
        this.#options.listener.onRoundTrip((nowMs - call.departure!.sentMs) / 1000)
        call.succeed(reply)
      },
      (error) => {
        this.#unanswered -= 1
        this.#onFailed(call, name, error)
      },
    )
  }

  #onFailed(call: Call, name: string, error: unknown): void {
    let message = errorText(error, this.#options.address)
    // It was written, and the connection ended: what became of it is not known.
    if (!(error instanceof ReplyError)) return call.fail(new LinkError('unknown', 'connection', `${this.name}: ${message}`))
    this.#noteHeard(performance.now())
    if (call.isDone) return
    const code = replyCode(message)
    if (code === 'NOSCRIPT' && name === 'evalsha' && this.isConnected) return this.#sendInFull(call)
    if (code === 'MOVED' && this.#options.redirect === undefined) message += ' (it is a cluster: redis+cluster:// names one)'
    const refusal = new LinkError('refused', code, `${this.name}: ${message}`)
    if ((code === 'MOVED' || code === 'ASK') && this.#options.redirect !== undefined) return this.#options.redirect(call, refusal, message)
    this.#options.listener.onError('reply', this.name, message)
    // Decisions are made by scripts: what a plain command is refused, for want of rights say, does not stop them.
    if (call.script !== undefined && !NODE_SERVES.has(code)) this.#onRefused(code, message)
    call.fail(refusal)
  }

  #onRefused(code: string, message: string): void {
    this.#open(message)
    // A replica: the name or the sentinels may lead to the master by now.
    if (code === 'READONLY' && this.isConnected) this.#client.disconnect(true)
  }

  #noteHeard(nowMs: number): void {
    this.#silentSinceMs = undefined
    this.#idleWatch.heard(nowMs)
  }

  /** Redis has lost its scripts, or never had this one: nothing was done yet. */
  #sendInFull(call: Call): void {
    this.#options.departures.hold(this.#client.stream)
    this.#send(call, 'eval', [call.script!.text, ...call.args.slice(1)])
  }

  #probe(): void {
    if (this.#isProbing || this.#isClosed || !this.isConnected) return
    const probe = this.#options.probe()
    if (probe === undefined) return this.#close('it is connected')
    const call = Call.ofScript(this.#options.departures, probe.script, probe.keys, probe.args)
    this.#isProbing = true
    call.reply.then(
      (reply) => {
        this.#isProbing = false
        if (this.#isClosed) return
        if (probe.isAnswer(reply)) return this.#close('it answers')
        this.#options.listener.onError('reply', this.name, STRANGE)
        this.#open(STRANGE)
      },
      () => {
        this.#isProbing = false
        const sinceMs = this.#silentSinceMs ?? Infinity
        if (this.isConnected && performance.now() - sinceMs >= SILENCE_MS) {
          this.#client.stream.destroy(new Error('it is connected but silent'))
        }
      },
    )
    this.ask(call)
  }

  readonly #onError = (error: Error & { command?: { name: string } }): void => {
    if (this.#isClosed) return
    const isOfSentinels = this.#sentinelFailure !== undefined && error.message.startsWith('All sentinels')
    this.#failure = isOfSentinels ? `no sentinel leads to the master: ${this.#sentinelFailure}` : errorText(error, this.#options.address)
    this.#options.listener.onError('connection', this.name, this.#failure)
    // ioredis would go on in database 0.
    if (error.command?.name === 'select') this.#client.stream.destroy()
  }

  readonly #onEnd = (): void => {
    if (this.#isClosed) return
    const closed = 'the connection was closed'
    if (this.#failure === undefined) this.#options.listener.onError('connection', this.name, closed)
    this.#open(this.#failure ?? closed)
    this.#reconnectTimer = setTimeout(() => this.#connect(), this.#backoff.nextMs())
  }

  readonly #tell = (isOpen: boolean, reason: string): void => {
    this.#options.listener.onCircuit(this.name, isOpen, reason)
  }

  #open(reason: string): void {
    if (this.#isClosed) return
    const { isOpen } = this.#circuit
    this.#circuit.open(reason)
    if (isOpen) return
    this.#options.onChange()
    this.#options.onTrouble()
  }

  #close(reason: string): void {
    this.#circuit.close(reason)
    this.#options.onChange()
  }
}

function ignore(): void {}
