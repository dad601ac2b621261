import { randomBytes } from 'node:crypto'
import { constants, createReadStream } from 'node:fs'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Readable } from 'node:stream'
import { GrowingBuffer } from '../memory/growing-buffer.ts'

const NO_DIRECTORY_SYNC = new Set(['EINVAL', 'ENOTSUP', 'EBADF', 'EPERM', 'EISDIR'])

/**
 * Replaces a file atomically: at any moment, even after a crash, there is either the whole old file or the whole new one. Only
 * its owner has access unless `mode` says otherwise. Throws the system's error; if that comes before the rename, the old file stays.
 */
export async function replaceFile<Written>(
  path: string,
  write: (handle: FileHandle) => Promise<Written>,
  { besidePath = `${path}.${randomBytes(6).toString('hex')}.new`, mode = 0o600 } = {},
): Promise<Written> {
  try {
    // A killed process may have left a file there, or somebody may have planted a symbolic link.
    await rm(besidePath, { force: true })
    const written = await writeSynced(besidePath, write, mode)
    await rename(besidePath, path)
    await syncDirectory(dirname(path))
    return written
  } catch (error) {
    await rm(besidePath, { force: true }).catch(() => {}) // the first error is the one to report
    throw error
  }
}

async function writeSynced<Written>(path: string, write: (handle: FileHandle) => Promise<Written>, mode: number): Promise<Written> {
  const handle = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, mode)
  try {
    const written = await write(handle)
    await handle.sync()
    return written
  } finally {
    await handle.close()
  }
}

/** A rename is durable only once its directory is synced. */
async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY)
  try {
    await handle.sync()
  } catch (error) {
    // Not every file system supports this.
    if (!NO_DIRECTORY_SYNC.has((error as NodeJS.ErrnoException).code!)) throw error
  } finally {
    await handle.close()
  }
}

/** Reads a whole file, or a pipe until it ends. Throws if it has more than `maxBytes`, since a device has no end. */
export function readFileBounded(path: string, maxBytes: number): Promise<Buffer> {
  return readBounded(createReadStream(path, { end: maxBytes }), maxBytes)
}

/** Reads a whole stream of bytes. Throws if it has more than `maxBytes`. */
export async function readBounded(stream: Readable, maxBytes: number): Promise<Buffer> {
  const content = new GrowingBuffer()
  for await (const piece of stream) {
    content.add(piece as Buffer)
    if (content.size > maxBytes) throw new Error(`it has more than ${maxBytes} bytes`)
  }
  return content.bytes
}

/** A disk that hangs returns nothing, not even an error. After this time, it is treated as failed. */
export const DISK_TIMEOUT_MS = 2000

export class DiskTimeout extends Error {
  constructor(timeoutMs = DISK_TIMEOUT_MS) {
    super(`the disk did not respond within ${timeoutMs / 1000} s`)
  }
}

/** Waits for disk work; throws a DiskTimeout when it takes too long. The work itself cannot be cancelled. */
export async function withDiskTimeout<Result>(work: Promise<Result>, timeoutMs = DISK_TIMEOUT_MS): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new DiskTimeout(timeoutMs)), timeoutMs).unref()
  })
  try {
    return await Promise.race([work, timeout])
  } finally {
    clearTimeout(timer)
  }
}
