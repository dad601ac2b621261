import { z } from 'zod'
import { fieldName } from '../../http1/field-name.ts'
import { HEADER_TEMPLATE, parseHeaderTemplate } from '../../secrets/header-template.ts'
import { foldedName } from '../../text/formats.ts'
import { isPlainPath } from '../../text/path.ts'
import { keyPatterns } from './match.ts'
import { descriptorKey, label } from './parts.ts'
import { routeSelector } from './selector.ts'

/*
 * Where the proxy forwards requests to, and which requests go where. Each `error` completes the sentence "expected …".
 */

/** Each takes a slot in memory that all workers share. */
const MAX_BACKENDS = 64
const MAX_ROUTES = 1000
const MAX_HEADERS = 32
const MAX_HEADER_CHARACTERS = 4096

const NAME = 'a name of 1 to 64 letters, digits, ".", "_" or "-" that begins with a letter or digit'
const URL_TEXT = 'a URL with http:// or https://, without user name, password, query and fragment'
const URL_PATH = 'a URL whose path has no escapes, parameters, empty segments or dot segments, so that every backend reads it alike'
const HEADER_NAME = 'the name of a header field, beginning with a letter or digit'
const OTHER_HEADER =
  'a header field that edge does not set or remove itself, such as Host, Content-Length, Connection, X-Forwarded-For or X-Edge-*'
const HEADER_TEXT = `a text of 1 to ${MAX_HEADER_CHARACTERS} printable ASCII characters that begins and ends with a visible one`
const TIMEOUT = 'a number of seconds from 0.1 to 86400'
const WEIGHT = 'a whole number from 0 to 1000'
const ATTEMPTS = 'a whole number from 0 to 10'
const RETRY_ON = '"connect", "timeout", "5xx", or a status from 400 to 599, such as 429'

export const backendName = z.string({ error: NAME }).regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, { error: NAME })

const headerName = z
  .string({ error: HEADER_NAME })
  .regex(/^[A-Za-z0-9][!#$%&'*+.^_`|~0-9A-Za-z-]{0,63}$/, { error: HEADER_NAME })
  .refine(mayBeSet, { error: OTHER_HEADER })

const headerText = z
  .string({ error: HEADER_TEXT })
  .regex(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/, { error: HEADER_TEXT })
  .max(MAX_HEADER_CHARACTERS, { error: HEADER_TEXT })
  .refine((text) => parseHeaderTemplate(text) !== undefined, { error: HEADER_TEMPLATE })

const backend = z.object(
  {
    url: z
      .string({ error: URL_TEXT })
      .max(2048, { error: 'at most 2048 characters' })
      .refine(isPlainUrl, { error: URL_TEXT })
      .refine((text) => !isPlainUrl(text) || isPlainPath(pathIn(text)), { error: URL_PATH })
      .meta({
        pattern: '^https?://[^/?#@]+(/[^?#]*)?$',
        description:
          'Where the backend is; EDGE_BACKEND_HOSTS must allow its host. A path in it is put in front of the path of each request.',
      }),
    headers: z
      .record(headerName, headerText, { error: 'an object of header fields and their texts' })
      .refine((headers) => Object.keys(headers).length <= MAX_HEADERS, { error: `at most ${MAX_HEADERS} header fields` })
      .check(checkSpellings)
      .optional()
      .meta({
        description:
          "Header fields of each request to the backend, instead of the client's. {NAME} is a secret: EDGE_SECRET_NAME, or a file.",
      }),
    open: z.literal(true, { error: 'true (leave `open` out otherwise)' }).optional().meta({
      description: 'Says that requests without a verified caller may spend its credential, so that nothing warns of it.',
    }),
    forward_credentials: z.boolean({ error: 'true or false' }).optional().meta({
      description:
        "Whether the backend gets the client's Authorization; with false neither that nor any other field in which callers.keys reads keys. Default true.",
    }),
    headers_timeout_seconds: z.number({ error: TIMEOUT }).min(0.1, { error: TIMEOUT }).max(86_400, { error: TIMEOUT }).optional().meta({
      description: "How long the headers of the backend's response may take; default EDGE_BACKEND_HEADERS_TIMEOUT_MS.",
    }),
  },
  { error: 'an object with url' },
)

export const backendsSchema = z
  .record(backendName, backend, { error: 'an object of backends' })
  .refine((backends) => Object.keys(backends).length > 0, { error: 'at least one backend (leave `backends` out to have none)' })
  .refine((backends) => Object.keys(backends).length <= MAX_BACKENDS, { error: `at most ${MAX_BACKENDS} backends` })
  .meta({ description: 'Where reverse_proxy may forward requests to, by name; routes say which requests go where.', minProperties: 1 })

const choiceFields = {
  name: backendName.meta({ description: 'The name of a backend.' }),
  model: label.optional().meta({ description: "Replaces the request's model, in its body or its path." }),
}

const CHOICE = 'an object with the name of a backend'

const choice = z.object(
  {
    ...choiceFields,
    weight: z.int({ error: WEIGHT }).min(0, { error: WEIGHT }).max(1000, { error: WEIGHT }).default(1).meta({
      description: 'Its share of the requests, compared with the other weights; 0 gets none.',
    }),
  },
  { error: CHOICE },
)

const fallbackChoice = z.object(
  {
    ...choiceFields,
    weight: z.never({ error: 'nothing here: fallbacks are tried in the order of the list' }).optional(),
  },
  { error: CHOICE },
)

/** A status is a number, or the same as a text. */
const failure = z
  .union(
    [
      z.enum(['connect', 'timeout', '5xx'], { error: RETRY_ON }),
      z.int({ error: RETRY_ON }).min(400, { error: RETRY_ON }).max(599, { error: RETRY_ON }),
      z.string({ error: RETRY_ON }).regex(/^[45]\d\d$/, { error: RETRY_ON }),
    ],
    { error: RETRY_ON },
  )
  .meta({ description: 'What is tried again elsewhere.' })

const retry = z.object(
  {
    on: z
      .array(failure, { error: `a list of ${RETRY_ON}` })
      .min(1, { error: 'at least one of them (for no retries write attempts: 0)' })
      .max(32, { error: 'at most 32 of them' })
      .refine((failures) => new Set(failures.map(String)).size === failures.length, { error: 'each once' })
      .default(['connect'])
      .meta({ description: 'After which failures another backend is tried. All but connect need the whole body in memory.' }),
    attempts: z.int({ error: ATTEMPTS }).min(0, { error: ATTEMPTS }).max(10, { error: ATTEMPTS }).default(1).meta({
      description: 'How many more backends are tried at most.',
    }),
  },
  { error: 'an object with on and attempts' },
)

const route = z.object(
  {
    selector: routeSelector.optional(),
    match: keyPatterns('match', 'an object of descriptor keys and patterns').optional().meta({
      description: 'The route covers only requests in which every key has a value that fits one of its patterns.',
    }),
    backends: z
      .array(choice, { error: 'a list of backends' })
      .min(1, { error: 'at least one backend' })
      .max(MAX_BACKENDS, { error: `at most ${MAX_BACKENDS} backends` })
      .refine((group) => group.length === 0 || group.some(({ weight }) => weight !== 0), {
        error: 'at least one backend with a weight above 0',
      })
      .meta({ description: 'Those that share the requests, by weight.' }),
    fallback: z
      .array(fallbackChoice, { error: 'a list of backends' })
      .min(1, { error: 'at least one backend (leave `fallback` out to have none)' })
      .max(MAX_BACKENDS, { error: `at most ${MAX_BACKENDS} backends` })
      .optional()
      .meta({ description: 'Those that are tried next, in this order.' }),
    stick_to: z
      .array(descriptorKey, { error: 'a list of descriptor keys' })
      .min(1, { error: 'at least one key (leave `stick_to` out to choose by weight alone)' })
      .max(8, { error: 'at most 8 keys' })
      .optional()
      .meta({ description: 'Requests with the same values of these keys go to the same backend, as long as it works.' }),
    retry: retry.prefault({}).meta({ description: 'When another backend is tried, and how often.' }),
  },
  { error: 'a route (an object with backends)' },
)

export const routesSchema = z
  .array(route, { error: 'a list of routes' })
  .min(1, { error: 'at least one route (leave `routes` out to have none)' })
  .max(MAX_ROUTES, { error: `at most ${MAX_ROUTES} routes` })
  .meta({ description: 'Which requests go to which backends, in reverse_proxy: the first route that covers a request decides.' })

export type BackendConfig = z.output<typeof backend>
export type BackendsConfig = z.output<typeof backendsSchema>
export type RouteConfig = z.output<typeof route>
export type RetryConfig = z.output<typeof retry>

/** Whether the field goes to the backend as it is, whatever its spelling: of `Transfer_Encoding`, some backends make `Transfer-Encoding`. */
function mayBeSet(name: string): boolean {
  const folded = foldedName(name.toLowerCase())
  if (folded.startsWith('x-edge-') || folded === 'content-encoding') return false
  return folded === 'cookie' || fieldName(folded).isPlainInRequest
}

/** Refuses two spellings of one field: it would be sent twice. */
function checkSpellings({ value: headers, issues }: z.core.ParsePayload<Record<string, string>>): void {
  const known = new Map<string, string>()
  for (const name of Object.keys(headers)) {
    const folded = foldedName(name.toLowerCase())
    const first = known.get(folded)
    if (first === undefined) known.set(folded, name)
    else issues.push({ code: 'custom', message: `each field once; ${first} is the same one`, input: undefined, path: [name] })
  }
}

function isPlainUrl(text: string): boolean {
  return /^https?:\/\/[^/?#@\\\s\p{Cc}]+(?:\/[^?#\\\s\p{Cc}]*)?$/u.test(text) && URL.canParse(text)
}

/** The path as it is written: `URL` would resolve its dots. */
function pathIn(text: string): string {
  const slash = text.indexOf('/', text.indexOf('//') + 2)
  return slash < 0 ? '/' : text.slice(slash)
}
