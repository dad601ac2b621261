import { randomBytes } from 'node:crypto'
import { chmodSync, linkSync, lstatSync, type Stats, statSync, unlinkSync } from 'node:fs'
import { connect } from 'node:net'
import { basename, dirname, join } from 'node:path'
import type { UnixSocketAddress } from '../../listen/listeners.ts'
import { withAddress } from '../../store/state/lock-socket.ts'
import { StateInUse, StateLock } from '../../store/state/state-lock.ts'
import { type BoundHandle, bindHandle } from './bound-handle.ts'

/** Why a unix socket cannot be opened, as a sentence about the path. */
export class SocketFault extends Error {}

/**
 * The file of a unix socket. The socket is bound under a temporary name, gets its permissions, and only then its own name. An existing file is
 * replaced only if it is a socket on which no process listens.
 *
 * Between binding and listening, a socket looks abandoned. During that time, a lock beside it shows other instances that the path is taken.
 */
export class SocketFile {
  readonly handle: BoundHandle
  readonly #path: string
  readonly #own: Stats
  #lock: StateLock | undefined
  readonly #removeAtExit = (): void => this.remove()

  private constructor(path: string, handle: BoundHandle, lock: StateLock) {
    this.handle = handle
    this.#path = path
    this.#own = lstatSync(path)
    this.#lock = lock
    process.once('exit', this.#removeAtExit)
  }

  /** Throws a SocketFault. */
  static async bind({ path, mode }: UnixSocketAddress): Promise<SocketFile> {
    checkDirectory(path)
    const lock = await acquireLock(path)
    try {
      await removeAbandoned(path)
      return new SocketFile(path, await bind(path, mode), lock)
    } catch (error) {
      lock.releaseNow()
      throw error
    }
  }

  /** Releases the lock: from now on, whoever tries to connect sees that the path is taken. */
  noteListening(): void {
    this.#lock?.releaseNow()
    this.#lock = undefined
  }

  /** Removes the file only if it is still ours. Must be called before the handle is closed, because until then no other file can get its inode. */
  remove(): void {
    process.off('exit', this.#removeAtExit)
    this.noteListening()
    try {
      const found = lstatSync(this.#path)
      if (found.ino === this.#own.ino && found.dev === this.#own.dev) unlinkSync(this.#path)
    } catch {
      // The file is already gone, or it stays behind and the next start replaces it.
    }
  }
}

function checkDirectory(path: string): void {
  const directory = dirname(path)
  let found: Stats | undefined
  try {
    found = statSync(directory, { throwIfNoEntry: false })
  } catch (error) {
    throw notAllowed(path, error)
  }
  if (found === undefined) throw new SocketFault(`the directory ${directory} does not exist`)
  if (!found.isDirectory()) throw new SocketFault(`${directory} is not a directory`)
}

async function acquireLock(path: string): Promise<StateLock> {
  try {
    return await StateLock.acquire(path)
  } catch (error) {
    throw error instanceof StateInUse ? inUse(path) : notAllowed(path, error)
  }
}

async function removeAbandoned(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found === undefined) return
  if (!found.isSocket()) throw new SocketFault(`${path} exists and is not a socket`)
  if (await isListenedOn(path)) throw inUse(path)
  try {
    if (lstatSync(path).ino === found.ino) unlinkSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw ofAnother(path)
  }
}

function isListenedOn(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path, () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      if (code === 'ECONNREFUSED' || code === 'ENOENT') resolve(false)
      else if (code === 'EACCES') reject(ofAnother(path))
      // The backlog is full, or it is a socket of another type.
      else resolve(true)
    })
  })
}

async function bind(path: string, mode: number): Promise<BoundHandle> {
  const temporary = join(dirname(path), `${basename(path).slice(0, MAX_NAME)}.new-${randomBytes(6).toString('hex')}`)
  let handle: BoundHandle | undefined
  try {
    handle = await withAddress(temporary, async (address) => bindHandle(address, -1, -1))
    chmodSync(temporary, mode)
    // Unlike rename(), link() replaces nothing.
    linkSync(temporary, path)
    unlinkSync(temporary)
    return handle
  } catch (error) {
    handle?.close()
    throw (error as NodeJS.ErrnoException).code === 'EEXIST' ? inUse(path) : notAllowed(path, error)
  }
}

/** Keeps the temporary name within the length limit of file names. */
const MAX_NAME = 40

function inUse(path: string): SocketFault {
  return new SocketFault(`${path} is in use by another process`)
}

function ofAnother(path: string): SocketFault {
  return new SocketFault(`${path} belongs to another user; if no process listens on it, remove it`)
}

function notAllowed(path: string, cause: unknown): SocketFault {
  const { code, message } = cause as NodeJS.ErrnoException
  const isDenied = code === 'EACCES' || code === 'EPERM'
  const problem = isDenied ? `this user is not allowed to create a socket in ${dirname(path)}` : `cannot create ${path}: ${message}`
  return new SocketFault(problem, { cause })
}
