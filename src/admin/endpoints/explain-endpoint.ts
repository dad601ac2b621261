import type { AskedRequest, ExplainRequest } from '../../decide/request-explanation.ts'
import type { CallerDigest } from '../../engine/decide-options.ts'
import { TOKEN } from '../../text/formats.ts'
import { encodePathText } from '../../text/path.ts'
import { show } from '../../text/problem.ts'
import { ApiError } from '../api/api-error.ts'
import { refuseUnknown } from '../api/api-request.ts'
import type { ApiRoute } from '../api/api-route.ts'
import { LongResponses } from '../api/long-responses.ts'
import type { ExplainRequestJson } from '../api/types.ts'
import { explanationSteps } from './explanation-json.ts'

/** POST explain: what a request would get now, and why. `callerDigest` converts credentials to digests. */
export function explainEndpoint(explain: ExplainRequest, callerDigest: CallerDigest): ApiRoute {
  const long = new LongResponses()
  return {
    method: 'POST',
    path: 'explain',
    isForReaders: true,
    handle: ({ body, http }) => {
      const asked = readAskedRequest(body)
      return long.serve(http, async ({ make }) => ({ status: 200, text: await make(explanationSteps(await explain(asked), callerDigest)) }))
    },
  }
}

/** Each key of a rule searches all fields, so their number is bounded. */
const MAX_FIELDS = 1000

/** Matches a target without spaces and control characters. */
const TARGET = /^[^\s\p{Cc}]+$/u
/** RFC 9110 5.5: each character represents one byte. */
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** Reads the request from the body of an `explain`. Throws if no client could send such a request. @public because a test measures it in the build. */
export function readAskedRequest(body: Readonly<Record<string, unknown>>): AskedRequest {
  refuseUnknown<ExplainRequestJson>(body, ['method', 'uri', 'host', 'headers', 'body'])
  const method = requiredText(body, 'method')
  if (!TOKEN.test(method)) throw badField('method', 'expected a method such as GET')
  const uri = requiredText(body, 'uri')
  if (!TARGET.test(uri)) throw badField('uri', 'expected a path such as /api/x?page=1, without spaces and control characters')
  const host = optionalText(body, 'host')
  if (host !== undefined && !FIELD_VALUE.test(host)) throw badField('host', 'expected the name of a host')
  const { fields, hosts } = readFields(body['headers'])
  if (host !== undefined) hosts.push(host)
  if (hosts.length > 1) throw badField('host', 'the host is given more than once')
  return { method, uri: encodePathText(uri), host: hosts[0], fields, body: optionalText(body, 'body') }
}

function requiredText(body: Readonly<Record<string, unknown>>, name: string): string {
  const text = optionalText(body, name)
  if (text === undefined) throw badField(name, 'missing')
  return text
}

function optionalText(body: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const value = body[name] ?? undefined
  if (value !== undefined && typeof value !== 'string') throw badField(name, 'expected a text')
  return value
}

/** Returns alternating names and values. A Host field gives the request's host, because gateways send their own in another field. */
function readFields(headers: unknown): { fields: string[]; hosts: string[] } {
  const fields: string[] = []
  const hosts: string[] = []
  if (headers === undefined || headers === null) return { fields, hosts }
  if (typeof headers !== 'object' || Array.isArray(headers)) throw badField('headers', 'expected an object of names and values')
  for (const [name, value] of Object.entries(headers)) {
    if (!TOKEN.test(name)) throw badField('headers', `${show(name)} is not the name of a header field`)
    for (const line of Array.isArray(value) ? (value as unknown[]) : [value]) {
      if (name.toLowerCase() === 'host') hosts.push(fieldText(name, line))
      else fields.push(name, fieldText(name, line))
    }
    if (fields.length > 2 * MAX_FIELDS) throw badField('headers', `expected at most ${MAX_FIELDS} fields`)
  }
  return { fields, hosts }
}

function fieldText(name: string, line: unknown): string {
  if (typeof line !== 'string') throw badField(`headers.${name}`, 'expected a text or a list of texts')
  // A value in UTF-8 has one character for each of its bytes, as in all values that this API shows.
  if (!FIELD_VALUE.test(line)) throw badField(`headers.${name}`, 'expected no control characters, and none beyond U+00FF')
  return withoutOuterSpace(line)
}

/** RFC 9110 5.5: spaces and tabs around a value are not part of it. */
function withoutOuterSpace(text: string): string {
  let from = 0
  let to = text.length
  while (from < to && (text[from] === ' ' || text[from] === '\t')) from++
  while (to > from && (text[to - 1] === ' ' || text[to - 1] === '\t')) to--
  return text.slice(from, to)
}

function badField(name: string, problem: string): ApiError {
  return new ApiError('bad_request', `${name.slice(0, 100)}: ${problem}`)
}
