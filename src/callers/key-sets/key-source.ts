import { join } from 'node:path'
import { type AllowedHosts, mayFetch } from '../../outbound/allowed-hosts.ts'
import type { JwtEntry } from '../../policy/schema/callers.ts'
import { formatPath, type Problem } from '../../text/problem.ts'

/** The part of an entry of `callers.jwt` that says where its key set is. */
export type KeySetEntry = Pick<JwtEntry, 'name' | 'jwks_url' | 'jwks_file'>

/** Identifies the place of a key set: entries with the same place share one set, and a set outlives the bundle that named its place first. */
export type KeySource = string

const FILE = 'file:'

/** The entry must be one without `keySourceProblems`. */
export function keySourceOf({ jwks_url: url, jwks_file: file }: KeySetEntry): KeySource {
  return url === undefined ? `${FILE}${file}` : new URL(url).href
}

/** The file of a source; undefined if it is a URL. */
export function fileOf(source: KeySource, secretsDir: string | undefined): string | undefined {
  return source.startsWith(FILE) ? join(secretsDir!, source.slice(FILE.length)) : undefined
}

/** The settings that say where key sets may be. */
export interface KeySetSettings {
  /** Undefined if nobody knows yet where the bundle will be used. */
  readonly backendHosts: AllowedHosts | undefined
  readonly secretsDir: string | undefined
}

/**
 * Finds entries whose key set may not be read where they say it is. Whoever writes bundles must not be able to make the process connect to any address
 * or open any file, so a bundle with such an entry is refused.
 */
export function keySourceProblems(entries: readonly KeySetEntry[], settings: KeySetSettings): Problem[] {
  return entries.flatMap((entry, index) => {
    const [field, expected] = problemOf(entry, settings) ?? []
    return field === undefined ? [] : [{ path: formatPath(['callers', 'jwt', index, field]), message: `expected ${expected}` }]
  })
}

function problemOf(
  { jwks_url: url, jwks_file: file }: KeySetEntry,
  { backendHosts, secretsDir }: KeySetSettings,
): readonly [keyof KeySetEntry, string] | undefined {
  if ((url === undefined) === (file === undefined)) return ['jwks_url', 'either jwks_url or jwks_file']
  if (url !== undefined) {
    const expected = mayFetch(url, backendHosts)
    return expected === undefined ? undefined : ['jwks_url', expected]
  }
  if (!isSecretName(file!)) return ['jwks_file', SECRET_NAME]
  return secretsDir === undefined ? ['jwks_file', 'EDGE_SECRETS_DIR to be set, because the file is read there'] : undefined
}

const SECRET_NAME = 'the name of a file in EDGE_SECRETS_DIR: up to 128 letters, digits, ".", "_" or "-", and no "." in front'

/**
 * Names of files only: nothing that leads out of the directory, and nothing that Kubernetes or an editor hides in it. A symbolic link of that name
 * may lead anywhere: Kubernetes makes every file one, and whoever can create links in the directory could as well write the file.
 */
function isSecretName(name: string): boolean {
  return /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$/.test(name)
}
