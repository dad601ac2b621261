import { sentToken } from '../../../src/request/bearer.ts'
import type { CallerProblem, CallerReader, CallerVerdict, VerifiedCaller } from '../../../src/request/caller.ts'
import { REPEATED, type RequestView } from '../../../src/request/view.ts'

/** A section that verifies tokens of one issuer, and reads issued keys in X-Api-Key. */
export const CALLERS = {
  jwt: [
    {
      name: 'okta',
      issuer: 'https://okta.test',
      audiences: ['edge'],
      jwks_file: 'okta.json',
      labels: { team: { claim: 'team' } },
    },
  ],
  keys: { from: ['header:x-api-key'] },
} as const

/**
 * Says who sends a request without any cryptography. `Bearer good:<sub>:<team>` is verified, `Bearer later:<sub>:<team>` is so after a turn of the event loop,
 * and any other token is the problem that it has. `X-Api-Key: edge_<id>` is an issued key of a team with that id,
 * and `edge_revoked` is one no longer.
 */
export class GoodCallers implements CallerReader {
  /** The client addresses of all requests. */
  readonly addresses: (string | undefined)[] = []

  read(view: RequestView, addressOf: () => string | undefined): CallerVerdict | Promise<CallerVerdict> {
    this.addresses.push(addressOf())
    const token = sentToken(view.header('authorization'))
    const key = view.header('x-api-key')
    if (token === REPEATED || key === REPEATED || (token !== undefined && key !== undefined)) return { problem: 'two_credentials' }
    if (key !== undefined) return issuedKey(key)
    if (token === undefined) return { problem: 'no_credential' }
    const [word, sub = '', team] = token.split(':')
    if (word === 'good') return verified(sub, team)
    if (word !== 'later') return { problem: token as CallerProblem }
    return new Promise((resolve) => setImmediate(() => resolve(verified(sub, team))))
  }
}

function verified(sub: string, team: string | undefined): VerifiedCaller {
  const labels = new Map(team === undefined ? [] : [['team', team]])
  return { id: `okta:${sub}`, labels, claims: { iss: 'https://okta.test', sub, ...(team !== undefined && { team }) } }
}

function issuedKey(key: string): CallerVerdict {
  if (!key.startsWith('edge_')) return { problem: 'unknown_key' }
  if (key === 'edge_revoked') return { problem: 'revoked', keyFields: ['x-api-key'] }
  const id = key.slice('edge_'.length)
  return { id: `key:${id}`, labels: new Map([['team', id]]), claims: undefined, keyFields: ['x-api-key'] }
}
