import { WebSocket } from 'ws'
import type { Cli } from '../support/service/cli.ts'
import { eventually } from './eventually.ts'

/** Has a process open its inspector on a port of its choice; to be in its environment. */
export const INSPECTOR_ENV = { NODE_OPTIONS: '--inspect=127.0.0.1:0' }

const MOMENT_MS = 200

interface Reply {
  readonly id?: number
  readonly method?: string
  readonly params?: { readonly sessionId: string; readonly message: string }
  readonly result?: { readonly usedSize: number }
  readonly error?: { readonly message: string }
}

/**
 * Node's own inspector: it tells how much memory is really in use, and makes a worker of the built
 * program die, which no hook of ours can do. To be closed after each use, so that it costs the process nothing meanwhile.
 */
export class Inspector {
  readonly #socket: WebSocket
  readonly #waiting = new Map<number, (reply: Reply) => void>()
  readonly #workers: string[] = []
  #calls = 0

  private constructor(socket: WebSocket) {
    this.#socket = socket
    socket.on('message', (text) => this.#hear(JSON.parse(String(text)) as Reply))
    socket.on('error', () => {}) // its 'close' follows
    socket.on('close', () => {
      for (const resolve of this.#waiting.values()) resolve({ error: { message: 'the inspector is gone' } })
      this.#waiting.clear()
    })
  }

  /** With all workers that are there now. */
  static async open(cli: Cli, workers: number): Promise<Inspector> {
    await eventually('the inspector listens', () => urlIn(cli) !== undefined)
    const socket = new WebSocket(urlIn(cli)!)
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
    const inspector = new Inspector(socket)
    await inspector.#call('NodeWorker.enable', { waitForDebuggerOnStart: false })
    await eventually(`the inspector sees ${workers} workers`, () => inspector.#workers.length >= workers)
    return inspector
  }

  /** Bytes of JavaScript objects that are in use, over all threads, after all garbage is gone. */
  async heapBytes(): Promise<number> {
    let bytes = await this.#heapOf((method) => this.#call(method))
    for (const worker of this.#workers) bytes += await this.#heapOf((method) => this.#callWorker(worker, method))
    return bytes
  }

  /** It ends a moment later, when this inspector should be closed: a worker that ends with a session open may hang. */
  async endWorker(index: number, end: 'exit' | 'throw'): Promise<void> {
    const action = end === 'exit' ? 'process.exit(7)' : 'throw new Error("ended by the soak")'
    const worker = this.#workers[index % this.#workers.length]!
    await this.#callWorker(worker, 'Runtime.evaluate', { expression: `setTimeout(() => { ${action} }, ${MOMENT_MS}); 0` })
  }

  async close(): Promise<void> {
    this.#socket.close()
    if (this.#socket.readyState !== WebSocket.CLOSED) await new Promise((resolve) => this.#socket.once('close', resolve))
  }

  async #heapOf(call: (method: string) => Promise<Reply>): Promise<number> {
    // What finalizers free goes with the second one.
    await call('HeapProfiler.collectGarbage')
    await call('HeapProfiler.collectGarbage')
    const { result, error } = await call('Runtime.getHeapUsage')
    if (result === undefined) throw new Error(`the inspector told no heap size: ${error?.message}`)
    return result.usedSize
  }

  #call(method: string, params: object = {}): Promise<Reply> {
    const id = ++this.#calls
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve)
      this.#socket.send(JSON.stringify({ id, method, params }))
    })
  }

  #callWorker(sessionId: string, method: string, params: object = {}): Promise<Reply> {
    const id = ++this.#calls
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve)
      void this.#call('NodeWorker.sendMessageToWorker', { sessionId, message: JSON.stringify({ id, method, params }) })
    })
  }

  #hear(reply: Reply): void {
    if (reply.method === 'NodeWorker.attachedToWorker') this.#workers.push(reply.params!.sessionId)
    if (reply.method === 'NodeWorker.receivedMessageFromWorker') this.#hear(JSON.parse(reply.params!.message) as Reply)
    if (reply.id === undefined) return
    this.#waiting.get(reply.id)?.(reply)
    this.#waiting.delete(reply.id)
  }
}

function urlIn({ stderr }: Cli): string | undefined {
  return /^Debugger listening on (ws:\S+)$/m.exec(stderr)?.[1]
}
