import type { ForkOptions } from 'node:child_process'
import type { Server } from 'node:net'
import { isUnixSocket, type ListenAddress, type ListenTarget } from '../../listen/listeners.ts'
import { type BoundHandle, bindPort } from './bound-handle.ts'
import { DescriptorPipe } from './descriptor-pipe.ts'
import type { SocketFile } from './socket-file.ts'
import type { SharedSocket } from './worker-host.ts'

/** One spare descriptor, so that a dead worker is replaced without waiting. */
const SPARES = 1

/** Shared by all ports. If it could not be opened, it is not tried again. */
let pipe: Promise<DescriptorPipe> | undefined

/**
 * A port or a unix socket that several threads of this process accept on. Each thread needs a descriptor of its own, because the system closes it
 * with the thread, and a number that two threads share would be closed for both. Node cannot duplicate a descriptor, but one sent over a unix socket
 * arrives under a new number: over a connection of this process to itself or, if that fails, through a child process, which sends it back.
 */
export class DescriptorPort implements SharedSocket {
  readonly #handle: BoundHandle
  /** Undefined for a TCP port. */
  readonly #file: SocketFile | undefined
  readonly #stock: BoundHandle[] = []
  /** Handles of descriptors given to threads, which close them. They must be kept: a garbage-collected one would close a number that is no longer its own. */
  readonly #given = new Map<number, BoundHandle>()
  #restocking: Promise<void> | undefined
  #isClosed = false

  private constructor(handle: BoundHandle, file: SocketFile | undefined, threads: number) {
    this.#handle = handle
    this.#file = file
    // The error reaches whoever asks for a share.
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

  /** Makes copies, one batch at a time. */
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
      // The child process is the fallback, because starting one costs more CPU time than everything else here.
      if (!this.#isClosed) await this.#copyInChild(missing)
    }
  }

  #copyInChild(copies: number): Promise<void> {
    const { fork } = process.getBuiltinModule('node:child_process') // loaded only if it is needed
    return new Promise((resolve, reject) => {
      // Detached from our process group, it survives a Ctrl-C that would otherwise end it halfway.
      const options: ForkOptions = { execArgv: [], stdio: 'ignore', detached: true }
      const child = fork(new URL('./descriptor-copier.js', import.meta.url), [String(copies)], options)
      child.on('message', (_message, handle) => this.#add(handle as unknown as BoundHandle))
      child.on('error', reject)
      child.on('exit', (code) => {
        if (code === 0) resolve()
        else reject(new Error(`the listening socket could not be shared among threads (exit ${code})`))
      })
      // A child that could not be started has no channel, and its 'error' follows.
      if (child.connected) child.send({}, this.#handle as unknown as Server)
    })
  }

  #add(copy: BoundHandle): void {
    if (this.#isClosed) copy.close()
    else this.#stock.push(copy)
  }
}
