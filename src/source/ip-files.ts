import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { type IpFileKind, loadIpFile } from './ip-database.ts'
import { WatchedFile } from './watched-file.ts'

export type IpFilePaths = Readonly<Record<IpFileKind, string | undefined>>

/** A file's content in memory that threads share. */
export interface IpFile {
  readonly kind: IpFileKind
  readonly path: string
  readonly bytes: SharedArrayBuffer
}

export interface IpFileListener {
  /** Something good to load. */
  onContent(file: IpFile): void
  onLoaded(path: string, entryCount: number | undefined): void
  /** The file stays out; what was loaded before stays in. */
  onProblem(path: string, problem: string): void
}

export interface FollowedFiles {
  /** All have been looked at once. */
  readonly started: Promise<void>
  stop(): void
}

const MAX_IP_FILE_BYTES = 256 * 1024 * 1024

/** Reads the IP databases, and again whenever they change. What cannot be loaded goes no further than here. */
export function followIpFiles(paths: IpFilePaths, listener: IpFileListener): FollowedFiles {
  const files = (['geoip', 'ipType', 'torExits'] as const).flatMap((kind) => {
    const path = paths[kind]
    return path === undefined ? [] : [follow(kind, path, listener)]
  })
  const start = async (): Promise<void> => {
    const path = embeddedCountryFile()
    listener.onContent({ kind: 'geoip', path, bytes: shared(await readFile(path)) })
    await Promise.all(files.map((file) => file.start()))
  }
  return {
    started: start(),
    stop() {
      for (const file of files) file.stop()
    },
  }
}

function follow(kind: IpFileKind, path: string, listener: IpFileListener): WatchedFile {
  return new WatchedFile(path, MAX_IP_FILE_BYTES, {
    onContent(bytes) {
      try {
        const entryCount = loadIpFile({}, kind, bytes, () => {})
        listener.onContent({ kind, path, bytes: shared(bytes) })
        listener.onLoaded(path, entryCount)
      } catch (error) {
        listener.onProblem(path, (error as Error).message)
      }
    },
    onProblem: (error) => listener.onProblem(path, error.message),
  })
}

function embeddedCountryFile(): string {
  return createRequire(import.meta.url).resolve('@ip-location-db/geo-whois-asn-country-mmdb/geo-whois-asn-country.mmdb')
}

function shared(bytes: Buffer): SharedArrayBuffer {
  const buffer = new SharedArrayBuffer(bytes.length)
  Buffer.from(buffer).set(bytes)
  return buffer
}
