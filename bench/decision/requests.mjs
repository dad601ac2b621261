// What is asked. All contestants get the same fields; only the first line differs, and five rules need a token.
import { bearer } from '../support/bundle.mjs'

const FIELDS = {
  Host: '127.0.0.1',
  'X-Original-Method': 'GET',
  'X-Original-URI': '/api/v1/users/42?full=1',
  'X-Api-Key': 'key-1000000',
}

export const DECISION = { method: 'POST', path: '/v1/decision', fields: FIELDS }
export const DECISION_WITH_TOKEN = { ...DECISION, fields: { ...FIELDS, Authorization: bearer() } }
/** nginx has no answer of its own for POST. */
export const PLAIN = { method: 'GET', path: '/api/v1/users/42?full=1', fields: FIELDS }

export function textOf({ method, path, fields, body = '' }) {
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`
}
