import { open } from 'node:fs/promises'
import { embeddedCountryFile } from '../files/package-files.ts'
import { WatchedFile } from '../files/watched-file.ts'
import { inSlices } from '../time/slices.ts'
import { type IpData, type IpFile, shareList } from './ip-databases.ts'

type IpFileKind = IpData['kind']

export type IpFilePaths = Readonly<Record<IpFileKind, string | undefined>>

export interface IpFileListener {
  /** Called with valid content only. */
  onContent(file: IpFile): void
  onLoaded(path: string, entryCount: number | undefined): void
  /** Called when a file is refused; the previous data stays active. */
  onProblem(path: string, problem: string): void
}

export interface FollowedFiles {
  /** Resolves when every file has been checked once. */
  readonly started: Promise<void>
  stop(): void
}

const MAX_IP_FILE_BYTES = 256 * 1024 * 1024

/**
 * Reads the IP databases at startup and whenever they change, in small steps because the main thread has other work. A file that cannot be loaded is
 * never passed on.
 */
export function followIpFiles(paths: IpFilePaths, listener: IpFileListener): FollowedFiles {
  const stopping = new AbortController()
  const files = (['geoip', 'ipType', 'torExits'] as const).flatMap((kind) => {
    const path = paths[kind]
    return path === undefined ? [] : [follow(kind, path, listener, stopping.signal)]
  })
  const start = async (): Promise<void> => {
    const path = embeddedCountryFile()
    listener.onContent({ path, data: { kind: 'geoip', bytes: await embeddedCountries(path) } })
    await Promise.all(files.map((file) => file.start()))
  }
  return {
    started: start(),
    stop() {
      stopping.abort()
      for (const file of files) file.stop()
    },
  }
}

function follow(kind: IpFileKind, path: string, listener: IpFileListener, stopping: AbortSignal): WatchedFile {
  return new WatchedFile(path, MAX_IP_FILE_BYTES, {
    async onContent(bytes) {
      try {
        if (kind === 'geoip') await checkCountries(bytes)
        const { data, entryCount } = await inSlices(untilStopped(readSteps(kind, bytes), stopping))
        listener.onContent({ path, data })
        listener.onLoaded(path, entryCount)
      } catch (error) {
        if (!stopping.aborted) listener.onProblem(path, (error as Error).message)
      }
    },
    onProblem: (error) => listener.onProblem(path, error.message),
  })
}

interface ReadFile {
  readonly data: IpData
  /** Undefined for country databases, which do not contain their number of entries. */
  readonly entryCount?: number
}

function* readSteps(kind: IpFileKind, bytes: Buffer): Generator<void, ReadFile> {
  if (kind === 'geoip') return { data: yield* shareCountries(bytes) }
  const { networks, entryCount } = yield* shareList(kind, bytes)
  return { data: { kind, networks }, entryCount }
}

/** Throws if the bytes are not an MMDB file. The main thread needs the library that reads such files only if there is a custom one. */
async function checkCountries(bytes: Buffer): Promise<void> {
  const { checkCountryFile } = await import('./country-database.ts')
  checkCountryFile(bytes)
}

function* untilStopped<Result>(steps: Generator<void, Result>, stopping: AbortSignal): Generator<void, Result> {
  for (;;) {
    stopping.throwIfAborted()
    const { done, value } = steps.next()
    if (done) return value
    yield
  }
}

/** Keeps the file in memory only once in a process that starts many services, as tests do. */
let countriesRead: WeakRef<SharedArrayBuffer> | undefined

async function embeddedCountries(path: string): Promise<SharedArrayBuffer> {
  const known = countriesRead?.deref()
  if (known !== undefined) return known
  const bytes = await readShared(path)
  countriesRead = new WeakRef(bytes)
  return bytes
}

/** Reads straight into memory that threads share, because copying this file would take as long as all other reading at startup. */
async function readShared(path: string): Promise<SharedArrayBuffer> {
  const file = await open(path)
  try {
    const bytes = new Uint8Array(new SharedArrayBuffer((await file.stat()).size))
    for (let at = 0; at < bytes.length; ) {
      const { bytesRead } = await file.read(bytes, at)
      if (bytesRead === 0) throw new Error(`${path} became shorter while it was read`)
      at += bytesRead
    }
    return bytes.buffer as SharedArrayBuffer
  } finally {
    await file.close()
  }
}

const COPIED_BYTES_A_STEP = 1024 * 1024

function* shareCountries(bytes: Buffer): Generator<void, IpData> {
  const shared = new Uint8Array(new SharedArrayBuffer(bytes.length))
  for (let from = 0; from < bytes.length; from += COPIED_BYTES_A_STEP) {
    shared.set(bytes.subarray(from, from + COPIED_BYTES_A_STEP), from)
    yield
  }
  return { kind: 'geoip', bytes: shared.buffer as SharedArrayBuffer }
}
