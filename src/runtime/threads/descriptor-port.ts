import type { ForkOptions } from 'node:child_process'
import type { Server } from 'node:net'
import { isUnixSocket, type ListenAddress, type ListenTarget } from '../../listen/listeners.ts'
import { type BoundHandle, bindPort } from './bound-handle.ts'
import { DescriptorPipe } from './descriptor-pipe.ts'
import type { SocketFile } from './socket-file.ts'
import type { SharedSocket } from './worker-host.ts'

/** A spare one, so that a worker that dies is replaced without waiting. */
const SPARES = 1

/** Of all ports. Once it could not be opened, it is not tried again. */
let pipe: Promise<DescriptorPipe> | undefined

/**
 * A port or a unix socket that several threads of this process accept on. Each needs a descriptor of its own: the system closes it with the
 * thread, and a number that two of them use would be closed for both. Node cannot duplicate a descriptor, but one that is sent over a unix
 * socket arrives under a new number: one of this process to itself, or, where there is none, that of a child process, which sends it back.
 */
export class DescriptorPort implements SharedSocket {
  readonly #handle: BoundHandle
  /** Of a unix socket. */
  readonly #file: SocketFile | undefined
  readonly #stock: BoundHandle[] = []
  /** Given to threads, which close them. These objects must stay: when one is collected, it closes a number not its own. */
  readonly #given = new Map<number, BoundHandle>()
  #restocking: Promise<void> | undefined
  #isClosed = false

  private constructor(handle: BoundHandle, file: SocketFile | undefined, threads: number) {
    this.#handle = handle
    this.#file = file
    // Whoever asks for a share gets the error.
    this.#restock(threads + SPARES).catch(() => {})
  }

  static async open(address: ListenAddress, threads: number): Promise<DescriptorPort> {
    if (!isUnixSocket(address)) return new DescriptorPort(await bindPort(address), undefined, threads)
    const { SocketFile } = await import('./socket-file.ts')
    const file = await SocketFile.bind(address)
    return new DescriptorPort(file.handle, file, threads)
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

  noteListening(): void {
    this.#file?.noteListening()
  }

  close(): void {
    this.#isClosed = true
    this.#file?.remove()
    for (const handle of [this.#handle, ...this.#stock.splice(0)]) handle.close()
  }

  /** One at a time. */
  #restock(copies: number): Promise<void> {
    this.#restocking ??= this.#copy(copies).finally(() => {
      this.#restocking = undefined
    })
    return this.#restocking
  }

  async #copy(copies: number): Promise<void> {
    let missing = copies
    try {
      pipe ??= DescriptorPipe.open()
      const copier = await pipe
      for (; missing > 0 && !this.#isClosed; missing--) this.#add(await copier.copy(this.#handle))
    } catch {
      // Starting a program costs more CPU time than all the rest here.
      if (!this.#isClosed) await this.#copyInChild(missing)
    }
  }

  #copyInChild(copies: number): Promise<void> {
    const { fork } = process.getBuiltinModule('node:child_process') // not loaded where it is not needed
    return new Promise((resolve, reject) => {
      // In a group of its own: a Ctrl-C that is meant for us must not end it halfway.
      const options: ForkOptions = { execArgv: [], stdio: 'ignore', detached: true }
      const child = fork(new URL('./descriptor-copier.js', import.meta.url), [String(copies)], options)
      child.on('message', (_message, handle) => this.#add(handle as unknown as BoundHandle))
      child.on('error', reject)
      child.on('exit', (code) => {
        if (code === 0) resolve()
        else reject(new Error(`the listening socket could not be shared among threads (exit ${code})`))
      })
      // One that could not be started has no channel, and its 'error' follows.
      if (child.connected) child.send({}, this.#handle as unknown as Server)
    })
  }

  #add(copy: BoundHandle): void {
    if (this.#isClosed) copy.close()
    else this.#stock.push(copy)
  }
}
