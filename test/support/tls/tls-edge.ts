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

/** A question of a gateway that keeps its connection. */
export const QUESTION = 'POST /v1/decision HTTP/1.1\r\nHost: edge\r\nX-Original-Method: GET\r\nX-Original-URI: /a\r\n\r\n'
