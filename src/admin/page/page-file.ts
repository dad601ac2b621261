import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** One file of the page, as it is sent. */
export interface PageFile {
  readonly plain: Buffer
  readonly gzip: Buffer
  /** For ETag: weak, because it is that of both. */
  readonly tag: string
}

/** The build has compressed it: a worker has decisions to make. Undefined where there is no such file. */
export function readPageFile(file: URL): PageFile | undefined {
  try {
    const plain = readFileSync(file)
    const gzip = readFileSync(new URL(`${file.href}.gz`))
    return { plain, gzip, tag: `W/"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"` }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
