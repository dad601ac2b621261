import { createHash, randomBytes } from 'node:crypto'
import { readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { askListener, type Listener, LockSocket } from './lock-socket.ts'
import { StateFault } from './state-fault.ts'
import { resolveStatePath } from './state-path.ts'

/** Another process has the file. */
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
/** For rivals that neither take the file nor let go of it: stopped in the middle of their start, say. */
const PATIENCE_MS = 10_000
/** So that a socket's name fits into its address, whatever the file is called. */
const MAX_NAME_BYTES = 40
/** How old a socket must be that nobody listens on and that has not got its name yet, to be nobody's. */
const ABANDONED_MS = 60_000

/** A save is written beside the file first, under a name that is four bytes longer. */
const MAX_STATE_NAME_BYTES = 251

/** Throws StateInUse, or a StateFault with the system's code where no lock can be made. */
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
 * One process at a time on a state file, for as long as it lives and no longer. Each that wants the file listens on a
 * socket of its own beside it, and then asks all others there. A name is never used twice, so a dead socket is dead for
 * good, and anybody may take it away at any time. (One name for all, taken over from the dead, has no safe moment for
 * that: between the last look and the taking, it may have become somebody else's.)
 *
 * Of two, the one that came to want the file later finds the other when it looks, and does not take the file while that
 * one wants or holds it. So that they do not wait for each other, the smaller name yields.
 */
export class StateLock {
  /** The state file's path, behind all links. */
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
    // A socket is there a moment before anybody listens on it, and would be taken for dead: its name comes after that.
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
    // One that cannot be taken away is dead all the same.
    await rm(this.#pathOf(this.#name), { force: true }).catch(() => {})
  }

  /** Somebody took the socket away, a cleaner of old files, say: others cannot see that the file is in use. */
  async isLost(): Promise<boolean> {
    const names = await readdir(dirname(this.statePath)).catch(() => [this.#name])
    return !names.includes(this.#name)
  }

  async #contend(): Promise<void> {
    const endMs = performance.now() + PATIENCE_MS
    for (;;) {
      const rivals = await this.#rivals()
      const holder = rivals.find(({ intent }) => intent === 'holds')
      if (holder !== undefined) throw new StateInUse(this.statePath, holder)
      const wanting = rivals.filter(({ intent }) => intent === 'wants')
      if (wanting.some(({ name }) => name > this.#name)) this.#socket.intent = 'yields'
      // Those who looked while we yielded have not minded us: look once more.
      else if (this.#socket.intent === 'yields') this.#socket.intent = 'wants'
      else if (wanting.length === 0) break
      if (performance.now() > endMs) throw new StateInUse(this.statePath, wanting[0]!)
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
    // A dead one that cannot be taken away is no less dead.
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
