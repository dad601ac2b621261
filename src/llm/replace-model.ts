import { normalizePath } from '../text/path.ts'
import { endpointOf, modelSpanIn, plainModel } from './endpoints.ts'
import { parseJson } from './json.ts'
import type { LlmRequest } from './llm-request.ts'

/** A request for a model, as it was received and read. */
export interface ModelRequest {
  /** In origin form, with its query. */
  readonly target: string
  readonly body: Buffer
  /** Whether the body has no content coding. */
  readonly isPlain: boolean
  readonly llm: LlmRequest
}

/** The same request for another model. Its body is in pieces, so that no second copy of a large one is made. */
export type ReplacedModel = { readonly target: string; readonly pieces: readonly Buffer[] } | 'model_not_replaceable'

/**
 * Replaces the model where the provider looks for it: in the path if that names one, else in the body. Every other byte stays as it came. If the
 * path names the model and the provider reads the body's too, both are replaced, so that they agree.
 */
export function withModel(request: ModelRequest, model: string): ReplacedModel {
  const { target, body, isPlain, llm } = request
  const { model: inPath, ignoresBodyModel } = endpointOf(normalizePath(target))
  if (inPath === undefined) {
    const replaced = isPlain && llm.model !== undefined ? inBody(body, llm.modelsAt, () => model) : undefined
    return replaced === undefined || replaced.length === 1 ? 'model_not_replaceable' : { target, pieces: replaced }
  }
  const replacedTarget = inTarget(target, model)
  if (replacedTarget === undefined) return 'model_not_replaceable'
  if (ignoresBodyModel === true || body.length === 0 || hasNoModel(llm)) return { target: replacedTarget, pieces: [body] }
  const replaced = isPlain ? inBody(body, llm.modelsAt, (before) => withResource(before, model)) : undefined
  return replaced === undefined ? 'model_not_replaceable' : { target: replacedTarget, pieces: replaced }
}

function hasNoModel({ modelsAt, isUnreadable }: LlmRequest): boolean {
  return isUnreadable !== true && modelsAt?.length === 0
}

/** `models/x` becomes `models/y`. An empty name means that of the path. */
function withResource(before: string, model: string): string {
  return before === '' ? '' : before.slice(0, before.length - plainModel(before).length) + model
}

/**
 * Returns undefined if the path would not name exactly this model afterwards, and otherwise say what it said before. That is so for models that no path
 * can name without being read in two ways.
 */
function inTarget(target: string, model: string): string | undefined {
  const end = target.search(/[?#]/)
  const path = end < 0 ? target : target.slice(0, end)
  const span = modelSpanIn(path)
  if (span === undefined) return undefined
  // Google writes versions as `model@version`.
  const segment = encodeURIComponent(model.toWellFormed()).replaceAll('%40', '@')
  const replaced = path.slice(0, span[0]) + segment + path.slice(span[1])
  const [before, after] = [endpointOf(normalizePath(path)), endpointOf(normalizePath(replaced))]
  const isNamed = after.model === model || after.model === model.toLowerCase()
  const isSame = JSON.stringify({ ...after, model: '' }) === JSON.stringify({ ...before, model: '' })
  return isNamed && isSame ? replaced + target.slice(path.length) : undefined
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a

/**
 * Replaces the texts that follow these names. A null stays, because it means that there is no model; undefined is returned for any other value. The body must be
 * JSON that was read, so every text has an end. Returns the body alone if nothing was replaced.
 */
function inBody(
  body: Buffer,
  namesAt: readonly number[] | undefined,
  replacement: (before: string) => string,
): readonly Buffer[] | undefined {
  if (namesAt === undefined) return undefined
  const pieces: Buffer[] = []
  let taken = 0
  for (const nameEnd of namesAt) {
    const from = skipSpace(body, skipSpace(body, nameEnd, COLON))
    if (body.toString('latin1', from, from + 4) === 'null') continue
    if (body[from] !== QUOTE) return undefined
    const to = textEnd(body, from)
    const before = parseJson(body.toString('utf8', from, to)) as string
    pieces.push(body.subarray(taken, from), Buffer.from(JSON.stringify(replacement(before))))
    taken = to
  }
  return [...pieces, body.subarray(taken)]
}

/** Returns the position after white space and this sign, if it is there. */
function skipSpace(body: Buffer, from: number, sign?: number): number {
  let at = from
  while (body[at] === 0x20 || body[at] === 0x0a || body[at] === 0x0d || body[at] === 0x09) at++
  return body[at] === sign ? at + 1 : at
}

/** Returns the position after the quote that ends the text. */
function textEnd(body: Buffer, from: number): number {
  let at = from + 1
  while (at < body.length && body[at] !== QUOTE) at += body[at] === BACKSLASH ? 2 : 1
  return at + 1
}
