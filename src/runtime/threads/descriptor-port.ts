import { type ForkOptions, fork } from 'node:child_process'
import { lookup } from 'node:dns/promises'
import net from 'node:net'
import { getSystemErrorName } from 'node:util'
import type { ListenAddress, ListenTarget } from '../../listen/listen-address.ts'
import type { SharedSocket } from './worker-host.ts'

/** Node's own name for a bound socket; `net` has no other way to bind without accepting. */
interface Handle {
  readonly fd: number
  getsockname(into: object): number
  close(): void
}

type CreateHandle = (address: string | null, port: number, family: 4 | 6) => Handle | number
const createHandle = (net as unknown as { _createServerHandle: CreateHandle })._createServerHandle

/** A spare one, so that a worker that dies is replaced without waiting. */
const SPARES = 1

/**
 * A port that several threads of this process accept on. Each needs a descriptor of its own: the system closes it with the
 * thread, and a number that two of them use would be closed for both. This thread cannot duplicate a descriptor, but one
 * that goes to a child process and back comes back under a new number.
 */
export class DescriptorPort implements SharedSocket {
  readonly #handle: Handle
  readonly #stock: Handle[] = []
  /** Given to threads, which close them. These objects must stay: when one is collected, it closes a number not its own. */
  readonly #given = new Map<number, Handle>()
  #restocking: Promise<void> | undefined
  #isClosed = false

  private constructor(handle: Handle, threads: number) {
    this.#handle = handle
    // Whoever asks for a share gets the error.
    this.#restock(threads + SPARES).catch(() => {})
  }

  static async open({ host, port }: ListenAddress, threads: number): Promise<DescriptorPort> {
    return new DescriptorPort(host === undefined ? bindAny(port) : await bindTo(host, port), threads)
  }

  async share(): Promise<ListenTarget> {
    while (this.#stock.length === 0) {
      if (this.#isClosed) throw new Error('the port is closed')
      await this.#restock(1 + SPARES)
    }
    const handle = this.#stock.pop()!
    this.#given.set(handle.fd, handle)
    return { fd: handle.fd }
  }

  giveBack(share: ListenTarget): void {
    const { fd } = share as { fd: number }
    const handle = this.#given.get(fd)!
    this.#given.delete(fd)
    if (this.#isClosed) handle.close()
    else this.#stock.push(handle)
  }

  close(): void {
    this.#isClosed = true
    for (const handle of [this.#handle, ...this.#stock.splice(0)]) handle.close()
  }

  /** One child at a time. */
  #restock(copies: number): Promise<void> {
    this.#restocking ??= this.#copy(copies).finally(() => {
      this.#restocking = undefined
    })
    return this.#restocking
  }

  #copy(copies: number): Promise<void> {
    return new Promise((resolve, reject) => {
      // In a group of its own: a Ctrl-C that is meant for us must not end it halfway.
      const options: ForkOptions = { execArgv: [], stdio: 'ignore', detached: true }
      const child = fork(new URL('./descriptor-copier.js', import.meta.url), [String(copies)], options)
      child.on('message', (_message, handle) => {
        if (this.#isClosed) (handle as unknown as Handle).close()
        else this.#stock.push(handle as unknown as Handle)
      })
      child.on('error', reject)
      child.on('exit', (code) => {
        if (code === 0) resolve()
        else reject(new Error(`the listening socket could not be shared among threads (exit ${code})`))
      })
      // One that could not be started has no channel, and its 'error' follows.
      if (child.connected) child.send({}, this.#handle as unknown as net.Server)
    })
  }
}

function bindAny(port: number): Handle {
  try {
    return bind('::', port, 6)
  } catch (error) {
    // A machine without IPv6
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE' || (error as NodeJS.ErrnoException).code === 'EACCES') throw error
    return bind('0.0.0.0', port, 4)
  }
}

async function bindTo(host: string, port: number): Promise<Handle> {
  const { address, family } = await lookup(host)
  return bind(address, port, family === 6 ? 6 : 4)
}

function bind(address: string, port: number, family: 4 | 6): Handle {
  const handle = createHandle(address, port, family)
  // A port that is taken shows only when the name of the socket is asked for.
  const errno = typeof handle === 'number' ? handle : handle.getsockname({})
  if (errno === 0) return handle as Handle
  if (typeof handle !== 'number') handle.close()
  throw listenError(errno, address, port)
}

function listenError(errno: number, address: string, port: number): NodeJS.ErrnoException {
  const code = getSystemErrorName(errno)
  return Object.assign(new Error(`listen ${code}: ${address}:${port}`), { code, errno, syscall: 'listen', address, port })
}
