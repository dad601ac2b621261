import { createHash, randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { readdir, readlink, realpath, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { askListener, type Listener, LockSocket } from './lock-socket.ts'
import { StateFault } from './state-format.ts'

/** Thrown if another process uses the file. */
export class StateInUse extends Error {
  readonly pid: number | undefined
  readonly host: string | undefined

  constructor(path: string, { pid, host }: Listener) {
    super(`${path} is in use by ${pid === undefined ? 'another process' : `process ${pid} on ${host}`}`)
    this.pid = pid
    this.host = host
  }
}

const RETRY_MS = 5
/** How long to wait for rivals that neither take the file nor give up, for example because they were stopped during startup. */
const TIMEOUT_MS = 10_000
/** Bounds the part of a socket's name that comes from the file's name, so that the whole fits into a socket address. */
const MAX_NAME_BYTES = 40
/** The age from which a socket that never got its final name, and on which no process listens, is removed. */
const ABANDONED_MS = 60_000

/** A file name has at most 255 bytes, and a save first writes a file beside it whose name is four bytes longer. */
const MAX_STATE_NAME_BYTES = 251

/** Throws StateInUse, or a StateFault with the system's code if no lock can be made. */
export async function acquireStateLock(path: string): Promise<StateLock> {
  const statePath = await resolveStatePath(path)
  try {
    if (Buffer.byteLength(basename(statePath)) > MAX_STATE_NAME_BYTES) throw new Error('name too long')
    return await StateLock.acquire(statePath)
  } catch (error) {
    if (error instanceof StateInUse) throw error
    throw new StateFault(`cannot lock ${statePath}`, error)
  }
}

/**
 * Lets one process at a time use a state file, for as long as that process lives. Each process that wants the file listens on a socket of
 * its own beside it, and then asks all other sockets there. A name is never used twice, so a dead socket stays dead, and any process may
 * remove it at any time. (If all processes used one name, there would be no safe moment to remove a dead socket: between the check and the
 * removal, another process may have taken the name.)
 *
 * Of two processes, the later one finds the socket of the other, and does not take the file while the other wants or holds it. The one with
 * the smaller name yields, so that they do not wait for each other.
 */
export class StateLock {
  /** The state file's path, with all links resolved. */
  readonly statePath: string
  readonly #socket: LockSocket
  readonly #prefix: string
  readonly #name: string

  private constructor(statePath: string, socket: LockSocket, prefix: string, name: string) {
    this.statePath = statePath
    this.#socket = socket
    this.#prefix = prefix
    this.#name = name
  }

  static async acquire(statePath: string): Promise<StateLock> {
    const prefix = `${shortName(basename(statePath))}.lock-`
    const name = `${prefix}${randomBytes(8).toString('hex')}`
    const path = join(dirname(statePath), name)
    // A socket exists a moment before its process listens on it, and would look dead until then, so it gets its final name afterwards.
    const socket = await LockSocket.listen(`${path}~`)
    const lock = new StateLock(statePath, socket, prefix, name)
    try {
      await rename(`${path}~`, path)
      await lock.#contend()
      return lock
    } catch (error) {
      await lock.release()
      throw error
    }
  }

  async release(): Promise<void> {
    this.#socket.close()
    // A socket that cannot be removed is still dead.
    await rm(this.#pathOf(this.#name), { force: true }).catch(() => {})
  }

  /** Releases the lock synchronously, for a process that is about to end. */
  releaseNow(): void {
    this.#socket.close()
    try {
      rmSync(this.#pathOf(this.#name), { force: true })
    } catch {
      // A socket that cannot be removed is still dead.
    }
  }

  /** Returns whether the socket was removed, for example by a cleaner of old files: then others cannot see that the file is in use. */
  async isLost(): Promise<boolean> {
    const names = await readdir(dirname(this.statePath)).catch(() => [this.#name])
    return !names.includes(this.#name)
  }

  async #contend(): Promise<void> {
    const endMs = performance.now() + TIMEOUT_MS
    for (;;) {
      const rivals = await this.#rivals()
      const holder = rivals.find(({ intent }) => intent === 'holds')
      if (holder !== undefined) throw new StateInUse(this.statePath, holder)
      const wanting = rivals.filter(({ intent }) => intent === 'wants')
      if (wanting.some(({ name }) => name > this.#name)) this.#socket.intent = 'yields'
      // Others that looked while this process yielded have ignored it, so it must look once more.
      else if (this.#socket.intent === 'yields') this.#socket.intent = 'wants'
      else if (wanting.length === 0) break
      if (wanting.length > 0 && performance.now() > endMs) throw new StateInUse(this.statePath, wanting[0]!)
      await sleep(RETRY_MS)
    }
    this.#socket.intent = 'holds'
  }

  async #rivals(): Promise<Rival[]> {
    const entries = await readdir(dirname(this.statePath), { withFileTypes: true })
    const names = entries.filter((entry) => entry.isSocket() && entry.name.startsWith(this.#prefix)).map(({ name }) => name)
    const asked = await Promise.all(names.filter((name) => name !== this.#name).map((name) => this.#ask(name)))
    return asked.filter((rival) => rival !== undefined)
  }

  async #ask(name: string): Promise<Rival | undefined> {
    const listener = await askListener(this.#pathOf(name))
    if (listener !== undefined) return name.endsWith('~') ? undefined : { ...listener, name }
    // Failing to remove a dead socket does no harm: it stays dead.
    if (!name.endsWith('~') || (await isAbandoned(this.#pathOf(name)))) await rm(this.#pathOf(name), { force: true }).catch(() => {})
    return undefined
  }

  #pathOf(name: string): string {
    return join(dirname(this.statePath), name)
  }
}

interface Rival extends Listener {
  readonly name: string
}

function shortName(name: string): string {
  return Buffer.byteLength(name) <= MAX_NAME_BYTES ? name : createHash('sha256').update(name).digest('hex').slice(0, 16)
}

async function isAbandoned(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined)
  return found !== undefined && Date.now() - found.mtimeMs > ABANDONED_MS
}

const MAX_LINKS = 40

/**
 * Returns the real path of the state file, whether or not it exists: all symlinks are resolved, its own too. All names of a file then share
 * one lock, and a save replaces the file that a link points to, not the link.
 */
async function resolveStatePath(path: string): Promise<string> {
  try {
    return await resolveLinks(path)
  } catch (error) {
    throw new StateFault(`cannot reach ${path}`, error)
  }
}

async function resolveLinks(path: string): Promise<string> {
  let at = resolve(path)
  for (let links = 0; links < MAX_LINKS; links++) {
    const directory = await realpath(dirname(at))
    const target = await readlink(join(directory, basename(at))).catch(orUndefined('EINVAL', 'ENOENT'))
    if (target === undefined) return join(directory, basename(at))
    at = resolve(directory, target)
  }
  return realpath(at)
}

function orUndefined(...codes: string[]) {
  return (error: NodeJS.ErrnoException): undefined => {
    if (!codes.includes(error.code!)) throw error
  }
}
