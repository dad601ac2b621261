import { closeSync, constants, openSync } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { hostname } from 'node:os'
import { basename, dirname } from 'node:path'

/** What a process has to do with a state file. */
export type Intent = 'wants' | 'yields' | 'holds'

export interface Listener {
  readonly intent: Intent
  /** As its own container counts; undefined where it did not say. */
  readonly pid?: number
  readonly host?: string
}

/** sockaddr_un has 104 bytes on some systems and 108 on Linux, and Node cuts what is longer. */
const MAX_ADDRESS_BYTES = 100
/** A process that is busy may be slow to say who it is; that it lives is known from the connection. */
const ANSWER_MS = 2_000
/** Too many ask at once, or it hung up while we did. */
const IS_THERE = new Set(['EAGAIN', 'ECONNRESET', 'EPIPE'])

/**
 * A socket that says who listens on it to anybody who connects. That somebody listens is known to the kernel, and ends
 * with the process, however it ends.
 */
export class LockSocket {
  intent: Intent = 'wants'
  readonly #server: Server

  private constructor() {
    this.#server = createServer((client) => {
      client.unref()
      client.on('error', () => {}) // it went away: nothing of ours
      // Whatever the client does or does not do, the answer is small enough for the kernel to keep.
      client.end(`${this.intent} ${process.pid} ${hostname()}\n`, () => client.destroy())
    })
  }

  static async listen(path: string): Promise<LockSocket> {
    const socket = new LockSocket()
    await withAddress(path, (address) => socket.#listen(address))
    try {
      // Another user's process must be able to ask; all it hears is who we are.
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

/** Who listens there, or undefined where nobody does. */
export async function askListener(path: string): Promise<Listener | undefined> {
  return withAddress(path, ask)
}

function ask(address: string): Promise<Listener | undefined> {
  return new Promise((resolve, reject) => {
    let answer = ''
    const socket = connect(address)
    socket.setEncoding('utf8')
    socket.setTimeout(ANSWER_MS, () => {
      resolve({ intent: 'holds' })
      socket.destroy()
    })
    socket.on('data', (text: string) => {
      answer += text
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED' || error.code === 'ENOENT') resolve(undefined)
      else if (!IS_THERE.has(error.code!)) reject(error)
    })
    socket.on('close', () => resolve(listenerOf(answer)))
  })
}

/** One that hung up without a word was there a moment ago: nothing is settled yet. */
function listenerOf(answer: string): Listener {
  const [, intent, pid, host] = /^(wants|yields|holds) (\d+) (\S+)\n$/.exec(answer) ?? []
  return intent === undefined ? { intent: 'wants' } : { intent: intent as Intent, pid: Number(pid), host: host! }
}

/** Runs with a name of the path that fits into a socket's address: a long one by way of its directory's descriptor. */
async function withAddress<Result>(path: string, run: (address: string) => Promise<Result>): Promise<Result> {
  if (process.platform !== 'linux' || Buffer.byteLength(path) <= MAX_ADDRESS_BYTES) return run(path)
  const directory = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    return await run(`/proc/self/fd/${directory}/${basename(path)}`)
  } finally {
    closeSync(directory)
  }
}
