import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { ServerConfig } from '../config/config.ts'
import { CounterFamily } from '../telemetry/metrics/metric-families.ts'
import type { MetricMemory } from '../telemetry/metrics/metric-memory.ts'
import { authoritiesProblem, type CertificatePair, readPair } from './certificate-pair.ts'
import { type FileGroup, FollowedGroup, type GroupOptions } from './followed-group.ts'

/** What workers need to speak TLS. */
export interface TlsMaterial {
  /** The first one serves clients that ask for no name, or for one that no certificate has. */
  readonly pairs: readonly CertificatePair[]
  /** PEM: who issues certificates of clients; undefined if clients need none. */
  readonly clientAuthorities: string | undefined
  /** Encrypt what clients keep to resume a session, at any worker. New files make new keys, so that no session outlives them. */
  readonly ticketKeys: Uint8Array
}

export type TlsFileSettings = Pick<ServerConfig, 'tlsCertFiles' | 'tlsKeyFiles' | 'tlsClientCaFile'>

export interface TlsFollowing {
  readonly metrics: MetricMemory
  /** Tells all workers. */
  readonly announce: (material: TlsMaterial) => void
}

/** A file of TLS cannot be used at startup. The message is a sentence about its setting. */
export class TlsFileFault extends Error {}

/** The size that OpenSSL wants: a name, and two keys. */
const TICKET_KEYS_BYTES = 48
/** Enough to recognise a certificate in the log. */
const LOGGED_NAMES = 20

/** The files of certificates, keys and authorities, on the main thread: reads and follows them, and tells the workers. */
export class TlsFiles {
  readonly #pairs: readonly FollowedGroup<CertificatePair>[]
  readonly #authorities: FollowedGroup<string> | undefined
  readonly #certificatePaths: readonly string[]
  readonly #authoritiesPath: string | undefined
  readonly #logger: Logger
  #material: TlsMaterial

  private constructor(
    settings: TlsFileSettings,
    pairs: readonly FollowedGroup<CertificatePair>[],
    authorities: FollowedGroup<string> | undefined,
    logger: Logger,
  ) {
    this.#pairs = pairs
    this.#authorities = authorities
    this.#certificatePaths = settings.tlsCertFiles
    this.#authoritiesPath = settings.tlsClientCaFile
    this.#logger = logger
    this.#material = this.#newMaterial()
  }

  /** Reads all files. Throws a TlsFileFault if one cannot be used. */
  static async read(settings: TlsFileSettings, { logger, ...options }: GroupOptions & { readonly logger: Logger }): Promise<TlsFiles> {
    const { tlsCertFiles, tlsKeyFiles, tlsClientCaFile } = settings
    try {
      const pairs = await Promise.all(tlsCertFiles.map((path, index) => FollowedGroup.read(pairGroup(path, tlsKeyFiles[index]!), options)))
      const authorities = tlsClientCaFile && (await FollowedGroup.read(authoritiesGroup(tlsClientCaFile), options))
      return new TlsFiles(settings, pairs, authorities || undefined, logger)
    } catch (error) {
      throw new TlsFileFault((error as Error).message, { cause: error })
    }
  }

  /** What a worker must know that starts now. */
  get material(): TlsMaterial {
    return this.#material
  }

  follow({ metrics, announce }: TlsFollowing): void {
    const failing = new CounterFamily(metrics, 'edge_tls_file_failing')
    const expiryS = new CounterFamily(metrics, 'edge_tls_certificate_expiry_seconds')
    const renew = (): void => {
      this.#material = this.#newMaterial()
      announce(this.#material)
    }
    const followGroup = (file: string, group: FollowedGroup<unknown>, describe: () => object): void => {
      const report = (): void => {
        failing.series(file).count = group.problem === undefined ? 0 : 1
        if (group.problem === undefined) this.#logger.info({ event: 'tls_reloaded', file, ...describe() }, 'TLS file reloaded')
        else
          this.#logger.error({ event: 'tls_failed', file, problem: group.problem }, 'TLS file not reloaded; the last good one stays in use')
      }
      const onValue = (): void => {
        renew()
        report()
      }
      failing.series(file).count = 0
      group.follow({ onValue, onProblem: report })
    }
    for (const [index, pair] of this.#pairs.entries()) {
      const path = this.#certificatePaths[index]!
      const describe = (): object => {
        expiryS.series(path).count = Math.floor(pair.value.expiresAtMs / 1000)
        return description(pair.value)
      }
      this.#logger.info({ event: 'tls_loaded', file: path, ...describe() }, 'certificate loaded')
      followGroup(path, pair, describe)
    }
    if (this.#authorities !== undefined) followGroup(this.#authoritiesPath!, this.#authorities, () => ({}))
  }

  /** Reads all files again, whether or not they seem to have changed. */
  async readAgain(): Promise<void> {
    await Promise.all([...this.#pairs, this.#authorities].map((group) => group?.readAgain()))
  }

  close(): void {
    for (const group of [...this.#pairs, this.#authorities]) group?.stop()
  }

  #newMaterial(): TlsMaterial {
    return {
      pairs: this.#pairs.map(({ value }) => value),
      clientAuthorities: this.#authorities?.value,
      ticketKeys: randomBytes(TICKET_KEYS_BYTES),
    }
  }
}

function description({ names, expiresAtMs }: CertificatePair): object {
  return { names: names.slice(0, LOGGED_NAMES), expires_at: new Date(expiresAtMs).toISOString() }
}

function pairGroup(certificatePath: string, keyPath: string): FileGroup<CertificatePair> {
  const settingOf = (path: string): string => (path === certificatePath ? 'EDGE_TLS_CERT_FILE' : 'EDGE_TLS_KEY_FILE')
  return {
    paths: [certificatePath, keyPath],
    read([certificate, key]) {
      const reading = readPair(certificate!, key!)
      if ('pair' in reading) return { value: reading.pair }
      const { at, message } = reading.problem
      return {
        problem: at === 'certificate' ? `EDGE_TLS_CERT_FILE: ${certificatePath} ${message}` : `EDGE_TLS_KEY_FILE: ${keyPath} ${message}`,
      }
    },
    unreadable: (path, { message }) => `${settingOf(path)}: cannot read ${path}: ${message}`,
  }
}

function authoritiesGroup(path: string): FileGroup<string> {
  return {
    paths: [path],
    read([bytes]) {
      const problem = authoritiesProblem(bytes!)
      return problem === undefined ? { value: bytes!.toString('latin1') } : { problem: `EDGE_TLS_CLIENT_CA_FILE: ${path} ${problem}` }
    },
    unreadable: (_path, { message }) => `EDGE_TLS_CLIENT_CA_FILE: cannot read ${path}: ${message}`,
  }
}
