import { asObject, parseJson } from './json.ts'

/** Longer `stream_options` are left unchanged; the known options take a few dozen bytes. */
const MAX_OPTIONS_BYTES = 4096
/** Matches the colon after a name and its value: null, or an object that contains no other object. */
const OPTIONS = /^\s*:\s*(null|\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\})/
const NAME = 'include_usage'

/**
 * Whether this is a path of chat completions or completions, whose streams contain a count only if the client asks for it. Model servers accept the
 * same bodies at `/invocations`, as SageMaker calls it, and llama.cpp at Ollama's `/api/chat`.
 */
export function mayAskForUsage(path: string): boolean {
  return /\/(?:completions|invocations|api\/chat)\/?$/i.test(path)
}

/** A body that asks for the provider's count, and whether the client asked for it itself; or 'unchanged' if the body cannot be made to ask. */
export type UsageRequest = { readonly bytes: Buffer; readonly isForClient: boolean } | 'unchanged'

/**
 * Makes a streaming request ask for the provider's count. `optionsAt` is the position in the body where the name `stream_options` ends, 0 if the body
 * has no such name, or undefined if the position is unknown.
 */
export function withUsageRequest(body: Buffer, optionsAt: number | undefined): UsageRequest {
  if (optionsAt === undefined) return 'unchanged'
  if (optionsAt === 0) {
    const start = body.indexOf('{') + 1
    return { bytes: spliced(body, start, start, `"stream_options":{"${NAME}":true},`), isForClient: false }
  }
  // A latin1 string has one character per byte, so its lengths are those of the body.
  const [all, value] = OPTIONS.exec(body.toString('latin1', optionsAt, optionsAt + MAX_OPTIONS_BYTES)) ?? []
  if (all === undefined || value === undefined) return 'unchanged'
  const end = optionsAt + all.length
  const start = end - value.length
  const options = asObject(parseJson(body.toString('utf8', start, end))) ?? {}
  const asked = options[NAME] ?? false
  // Some servers accept other values as true, and others refuse them.
  if (typeof asked !== 'boolean') return 'unchanged'
  const names = Object.keys(options)
  // Go matches JSON names without regard to case and folds `ſ` to `s`; comparing in upper case does the same.
  const isInOtherCase = (name: string): boolean => name !== NAME && name.toUpperCase() === NAME.toUpperCase()
  if (asked && !names.some(isInOtherCase)) return { bytes: body, isForClient: true }
  const others = Object.fromEntries(names.filter((name) => !isInOtherCase(name)).map((name) => [name, options[name]]))
  return { bytes: spliced(body, start, end, JSON.stringify({ ...others, [NAME]: true })), isForClient: asked }
}

function spliced(body: Buffer, from: number, to: number, text: string): Buffer {
  return Buffer.concat([body.subarray(0, from), Buffer.from(text), body.subarray(to)])
}

/** Where and how usage is inserted into the JSON text of an event. */
export interface UsageInsertion {
  readonly at: number
  /** Number of bytes that the usage replaces. */
  readonly replaced: number
  /** Text that is written before the usage. */
  readonly before: string
}

/**
 * Finds the position without serialising the JSON again, so unknown fields, the spelling of numbers and the order of keys are preserved. `usage` is
 * the value that the object has now; returns undefined if that value must stay. Works on bytes, because the structure of JSON is ASCII.
 */
export function usageInsertion(bytes: Buffer, spans: readonly number[], usage: unknown): UsageInsertion | undefined {
  if (usage === null) {
    const at = findUsageNull(bytes, spans)
    return at < 0 ? undefined : { at, replaced: 4, before: '' }
  }
  if (usage !== undefined) return undefined
  const brace = lastBrace(bytes, spans)
  const isEmpty = previousSign(bytes, spans, brace) === OPEN_OBJECT
  return { at: brace, replaced: 0, before: isEmpty ? '"usage":' : ',"usage":' }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const LETTER_N = 0x6e

/** Finds the brace that ends the object: the last one in the data. */
function lastBrace(bytes: Buffer, spans: readonly number[]): number {
  for (let i = spans.length - 2; i >= 0; i -= 2) {
    for (let at = spans[i + 1]! - 1; at >= spans[i]!; at--) if (bytes[at] === CLOSE_OBJECT) return at
  }
  return -1
}

function previousSign(bytes: Buffer, spans: readonly number[], before: number): number {
  for (let i = spans.length - 2; i >= 0; i -= 2) {
    for (let at = Math.min(spans[i + 1]!, before) - 1; at >= spans[i]!; at--) if (!isSpace(bytes[at]!)) return bytes[at]!
  }
  return -1
}

/** Finds the `null` of the object's own `usage`. If the name is repeated, the last one is returned, because JSON.parse uses that one. */
function findUsageNull(bytes: Buffer, spans: readonly number[]): number {
  let depth = 0
  let isInString = false
  let stringStart = 0
  let isUsage = false
  let found = -1
  for (let i = 0; i < spans.length; i += 2) {
    for (let at = spans[i]!; at < spans[i + 1]!; at++) {
      const byte = bytes[at]!
      if (isInString) {
        if (byte === BACKSLASH) at++
        else if (byte === QUOTE) {
          isInString = false
          isUsage = depth === 1 && at - stringStart === 6 && bytes.toString('latin1', stringStart + 1, at) === 'usage'
        }
      } else if (byte === QUOTE) {
        isInString = true
        stringStart = at
      } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth++
      else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) depth--
      // Only a name is followed by a colon and then `n`; a string value is followed by a comma or a bracket.
      else if (byte === LETTER_N && isUsage && depth === 1) found = at
      else if (byte === COMMA) isUsage = false
    }
  }
  return found
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d
}
