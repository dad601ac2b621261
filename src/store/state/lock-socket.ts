import { closeSync, constants, openSync } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { hostname } from 'node:os'
import { basename, dirname } from 'node:path'

/** Whether a process wants a state file, lets another one have it first, or holds it. */
export type Intent = 'wants' | 'yields' | 'holds'

export interface Listener {
  readonly intent: Intent
  /** Process id in the namespace of the process's own container; undefined if there was no reply. */
  readonly pid?: number
  readonly host?: string
}

/** sockaddr_un has 104 bytes on some systems and 108 on Linux, and Node truncates longer paths. */
const MAX_ADDRESS_BYTES = 100
/** A busy process may be slow to reply; the connection alone shows that it is alive. */
const REPLY_MS = 2_000
/** Errors that only a socket with a listening process gives: its backlog is full, or it closed the connection. */
const IS_ALIVE = new Set(['EAGAIN', 'ECONNRESET', 'EPIPE'])

/**
 * A socket that sends each client the intent of its process. The kernel knows whether a process listens, and the listening ends with the
 * process, however that ends.
 */
export class LockSocket {
  intent: Intent = 'wants'
  readonly #server: Server

  private constructor() {
    this.#server = createServer((client) => {
      client.unref()
      client.on('error', () => {}) // the client closed early
      // Even if the client never reads, the reply is small enough for the kernel's buffer.
      client.end(`${this.intent} ${process.pid} ${hostname()}\n`, () => client.destroy())
    })
  }

  static async listen(path: string): Promise<LockSocket> {
    const socket = new LockSocket()
    await withAddress(path, (address) => socket.#listen(address))
    try {
      // Processes of other users must be able to connect; all they get is this line.
      await chmod(path, 0o666)
      return socket
    } catch (error) {
      socket.close()
      throw error
    }
  }

  close(): void {
    this.#server.close()
  }

  #listen(address: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(address, () => {
        this.#server.off('error', reject)
        this.#server.on('error', () => {}) // a client that could not be accepted
        this.#server.unref()
        resolve()
      })
    })
  }
}

/** Returns the process that listens there, or undefined if none does. */
export async function askListener(path: string): Promise<Listener | undefined> {
  return withAddress(path, ask)
}

function ask(address: string): Promise<Listener | undefined> {
  return new Promise((resolve, reject) => {
    let reply = ''
    const socket = connect(address)
    socket.setEncoding('utf8')
    socket.setTimeout(REPLY_MS, async () => {
      // If our own event loop was blocked, the reply is there already: one turn connects, the next one reads.
      for (let turn = 0; turn < 2; turn++) await new Promise(setImmediate)
      resolve(reply === '' ? { intent: 'holds' } : listenerOf(reply))
      socket.destroy()
    })
    socket.on('data', (text: string) => {
      reply += text
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED' || error.code === 'ENOENT') resolve(undefined)
      else if (!IS_ALIVE.has(error.code!)) reject(error)
    })
    socket.on('close', () => resolve(listenerOf(reply)))
  })
}

/** A process that closed the connection without a reply was alive a moment ago, but its intent is not known yet. */
function listenerOf(reply: string): Listener {
  const [, intent, pid, host] = /^(wants|yields|holds) (\d+) (\S+)\n$/.exec(reply) ?? []
  return intent === undefined ? { intent: 'wants' } : { intent: intent as Intent, pid: Number(pid), host: host! }
}

/** Calls `run` with a path that fits into a socket's address: a path that is too long goes through its directory's descriptor. */
export async function withAddress<Result>(path: string, run: (address: string) => Promise<Result>): Promise<Result> {
  if (process.platform !== 'linux' || Buffer.byteLength(path) <= MAX_ADDRESS_BYTES) return run(path)
  const directory = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    return await run(`/proc/self/fd/${directory}/${basename(path)}`)
  } finally {
    closeSync(directory)
  }
}
