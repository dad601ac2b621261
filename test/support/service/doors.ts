import { exchange, type Fields } from './http.ts'
import { readAnswers, type WireAnswer } from './wire.ts'

/** The request that is asked about. */
export interface AskedRequest {
  readonly method?: string
  readonly uri?: string
  /** Unset: the gateway does not say. */
  readonly host?: string
  readonly fields?: Fields
}

/** A way to ask over HTTP. */
export interface HttpDoor {
  /** As `edge_questions_total` names it. */
  readonly name: string
  readonly path: string
  /** The method that its gateways send, where it is not the request's own. */
  readonly ownMethod: string
  /** The question's target, and the fields that say what is asked about. */
  readonly describe: (method: string, uri: string, host: string | undefined) => { readonly target: string; readonly fields: Fields }
}

export const DECISION: HttpDoor = {
  name: 'decision',
  path: '/v1/decision',
  ownMethod: 'POST',
  describe: (method, uri, host) => ({
    target: '/v1/decision',
    fields: [['X-Original-Method', method], ['X-Original-URI', uri], ...hostField('X-Original-Host', host)],
  }),
}

export const FORWARD_AUTH: HttpDoor = {
  name: 'forward_auth',
  path: '/v1/forward-auth',
  ownMethod: 'GET',
  describe: (method, uri, host) => ({
    target: '/v1/forward-auth',
    fields: [['X-Forwarded-Method', method], ['X-Forwarded-Uri', uri], ...hostField('X-Forwarded-Host', host)],
  }),
}

export const AUTH_REQUEST: HttpDoor = {
  name: 'auth_request',
  path: '/v1/auth-request',
  ownMethod: 'GET',
  describe: (method, uri, host = '') => ({
    target: '/v1/auth-request',
    fields: [
      ['X-Original-Method', method],
      ['X-Original-URL', `https://${host}${uri}`],
    ],
  }),
}

export const EXT_AUTHZ: HttpDoor = {
  name: 'ext_authz',
  path: '/v1/ext-authz',
  ownMethod: 'GET',
  describe: (_method, uri) => ({ target: `/v1/ext-authz${uri}`, fields: [] }),
}

export const HTTP_DOORS: readonly HttpDoor[] = [DECISION, FORWARD_AUTH, AUTH_REQUEST, EXT_AUTHZ]

interface QuestionOptions {
  /** Of the question itself. */
  readonly ownMethod?: string
  readonly isLast?: boolean
}

/** A question about this request, as its gateway sends it: each character is one byte. */
export function questionBytes(door: HttpDoor, request: AskedRequest = {}, options: QuestionOptions = {}): Buffer {
  const { method = 'GET', uri = '/', host, fields = [] } = request
  const described = door.describe(method, uri, host)
  const ownMethod = door === EXT_AUTHZ ? method : (options.ownMethod ?? door.ownMethod)
  const ownHost = door === EXT_AUTHZ ? (host ?? 'edge') : 'edge'
  const lines = [...described.fields, ...fields].map(([name, value]) => `${name}: ${value}\r\n`)
  const last = options.isLast ? 'Connection: close\r\n' : ''
  return Buffer.from(`${ownMethod} ${described.target} HTTP/1.1\r\nHost: ${ownHost}\r\n${lines.join('')}${last}\r\n`, 'latin1')
}

/** Asks once, on a connection of its own. */
export async function askThrough(door: HttpDoor, port: number, request: AskedRequest = {}, ownMethod?: string): Promise<WireAnswer> {
  const options = ownMethod === undefined ? {} : { ownMethod }
  const answers = readAnswers(await exchange(port, questionBytes(door, request, { ...options, isLast: true })))
  if (answers.length !== 1) throw new Error(`expected one answer, got ${answers.length}`)
  return answers[0]!
}

function hostField(name: string, host: string | undefined): Fields {
  return host === undefined ? [] : [[name, host]]
}
