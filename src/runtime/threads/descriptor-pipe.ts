import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BoundHandle } from './bound-handle.ts'

/** Node's internal object for a unix socket. `net` shows one only as a stream, which cannot carry descriptors. */
interface Pipe {
  readonly fd: number
  onconnection: (status: number, accepted: Pipe) => void
  /** Called without bytes when the connection has broken. */
  onread: (bytes: ArrayBuffer | undefined) => void
  /** The descriptor that came with what was just read. */
  pendingHandle: BoundHandle | undefined
  bind(path: string): number
  listen(backlog: number): number
  connect(request: object, path: string): number
  open(fd: number): number
  readStart(): number
  writeUtf8String(request: object, text: string, handle: BoundHandle): number
  unref(): void
  close(): void
}

interface Bindings {
  pipe_wrap: {
    readonly Pipe: new (kind: number) => Pipe
    readonly PipeConnectWrap: new () => { oncomplete?: (status: number) => void }
    readonly constants: { readonly SERVER: number; readonly IPC: number }
  }
  stream_wrap: { readonly WriteWrap: new () => object }
}

/**
 * A connection of this process to itself. A descriptor sent over it arrives under a new number, as it does in a child process (`SCM_RIGHTS`,
 * unix(7)). It stays open as long as the process: two objects have the descriptor number of one of its ends, and closing both would close a
 * number that may belong to something else by then.
 */
export class DescriptorPipe {
  readonly #sender: Pipe
  readonly #receiver: Pipe
  /** Must be kept: when it is garbage-collected, it closes its descriptor. */
  readonly #accepted: Pipe
  /** The last copy under way; copies are made one at a time. */
  #copied: Promise<unknown> = Promise.resolve()

  private constructor(sender: Pipe, receiver: Pipe, accepted: Pipe) {
    this.#sender = sender
    this.#receiver = receiver
    this.#accepted = accepted
    for (const end of [this.#sender, this.#receiver, this.#accepted]) end.unref()
  }

  /** Rejects if this version of Node or the directory for temporary files does not allow it. */
  static async open(): Promise<DescriptorPipe> {
    const { Pipe, PipeConnectWrap, constants } = binding('pipe_wrap')
    // mkdtemp creates the directory with mode 0700, so no other user can connect.
    const folder = mkdtempSync(join(tmpdir(), 'edge-'))
    const server = new Pipe(constants.SERVER)
    try {
      const path = join(folder, 'self')
      check('bind', server.bind(path))
      check('listen', server.listen(1))
      const sender = new Pipe(constants.IPC)
      const accepted = await new Promise<Pipe>((resolve, reject) => {
        server.onconnection = (status, accepted) => (status < 0 ? reject(new Error(`accept: ${status}`)) : resolve(accepted))
        const connecting = new PipeConnectWrap()
        connecting.oncomplete = (status) => status < 0 && reject(new Error(`connect: ${status}`))
        check('connect', sender.connect(connecting, path))
      })
      // The accepted object cannot receive descriptors, but an IPC pipe on the same descriptor number can.
      const receiver = new Pipe(constants.IPC)
      check('open', receiver.open(accepted.fd))
      check('read', receiver.readStart())
      return new DescriptorPipe(sender, receiver, accepted)
    } finally {
      server.close()
      rmSync(folder, { recursive: true, force: true })
    }
  }

  copy(handle: BoundHandle): Promise<BoundHandle> {
    const copied = this.#copied.then(() => this.#send(handle))
    this.#copied = copied.catch(() => {})
    return copied
  }

  #send(handle: BoundHandle): Promise<BoundHandle> {
    return new Promise((resolve, reject) => {
      this.#receiver.onread = (bytes) => {
        const copy = this.#receiver.pendingHandle
        this.#receiver.pendingHandle = undefined
        if (bytes !== undefined && copy !== undefined) resolve(copy)
        else reject(new Error('the copy of a descriptor did not arrive'))
      }
      const { WriteWrap } = binding('stream_wrap')
      check('write', this.#sender.writeUtf8String(new WriteWrap(), '.', handle))
    })
  }
}

function binding<Name extends keyof Bindings>(name: Name): Bindings[Name] {
  return (process as unknown as { binding(name: Name): Bindings[Name] }).binding(name)
}

function check(what: string, status: number): void {
  if (status < 0) throw new Error(`${what}: ${status}`)
}
