import { copyFile, rename } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { scratchDirectory, thisTest } from '../service/running.ts'
import { type Certificate, selfSigned } from '../service/self-signed.ts'

/** Settings for these pairs. */
export function tlsEnv(...pairs: readonly Certificate[]): Record<string, string> {
  return {
    EDGE_TLS_CERT_FILE: pairs.map(({ path }) => path).join(),
    EDGE_TLS_KEY_FILE: pairs.map(({ keyPath }) => keyPath).join(),
  }
}

/** A pair for these names in a directory of its own. */
export async function ownPair(names?: string, owner = thisTest): Promise<Certificate> {
  return selfSigned(await scratchDirectory(owner), names)
}

/** Replaces the files of a pair, each in one step. */
export async function replaceBoth(pair: Certificate, by: Certificate): Promise<void> {
  await Promise.all([replaceBy(pair.path, by.path), replaceBy(pair.keyPath, by.keyPath)])
}

/** Replaces a file by a copy of another, in one step. */
export async function replaceBy(path: string, by: string): Promise<void> {
  await copyFile(by, `${path}.new`)
  await rename(`${path}.new`, path)
}

/** How long a problem of files must last before it is reported. */
const REPLACING_MS = 2000

/** A pause of the service that is over at once, or never, where it waits for files that are replaced; all others take their time. */
export function replacingPause(isOver: boolean): (ms: number) => Promise<unknown> {
  return (ms) => (ms === REPLACING_MS ? (isOver ? Promise.resolve() : new Promise(() => {})) : sleep(ms, undefined, { ref: false }))
}

/** A question of a gateway that keeps its connection. */
export const QUESTION = 'POST /v1/decision HTTP/1.1\r\nHost: edge\r\nX-Original-Method: GET\r\nX-Original-URI: /a\r\n\r\n'
