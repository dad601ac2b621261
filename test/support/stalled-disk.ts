import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'

/** Node's threads for file work (libuv). */
const THREADS = Number(process.env['UV_THREADPOOL_SIZE'] ?? 4)

/** From now on no file work of this process returns, as with a disk that hangs, until the function that is returned is called. */
export function stallDisk(directory: string): () => Promise<void> {
  const pipe = join(directory, 'stalls')
  execFileSync('mkfifo', [pipe])
  // Opening a pipe waits for somebody who writes to it.
  const waiting = Array.from({ length: THREADS }, (): Promise<FileHandle> => open(pipe))
  return async () => {
    const writer = openSync(pipe, constants.O_RDWR)
    for (const handle of await Promise.all(waiting)) await handle.close()
    closeSync(writer)
  }
}
