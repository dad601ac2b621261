import { characters, charactersIn } from '../../../src/llm/dialects/dialect.ts'
import { GeminiDialect, readGeminiUsage } from '../../../src/llm/dialects/gemini.ts'
import { asList, asObject, type JsonObject, parseJson } from '../../../src/llm/json.ts'
import { estimatedTokens, newTally, type Tally } from '../../../src/llm/usage.ts'

/** What the readers of Gemini's requests and answers should say, by JSON.parse and the tree that it builds. */
const PROMPT_FIELDS = ['contents', 'systemInstruction', 'system_instruction', 'content', 'requests']
const DEFINITION_FIELDS = ['tools', 'toolConfig', 'tool_config']
const CONFIG_FIELDS = ['generationConfig', 'generation_config']
const OTHER_FIELDS = ['model', 'safetySettings', 'safety_settings', 'labels']
export const GEMINI_NAMES = [...PROMPT_FIELDS, ...DEFINITION_FIELDS, ...CONFIG_FIELDS, ...OTHER_FIELDS]
const COUNT_FIELDS = ['maxOutputTokens', 'max_output_tokens', 'candidateCount', 'candidate_count']
const WRITTEN_PARTS = ['functionCall', 'functionResponse', 'executableCode', 'codeExecutionResult']
const TEXT_TYPES = ['text/plain', 'text/csv', 'application/json']

export interface GeminiRequestFacts {
  readonly promptTokens: number
  readonly requestedTokens: number | undefined
  readonly choices: number
}

export function geminiRequestByTree(body: string): GeminiRequestFacts {
  const request = asObject(parseJson(body))!
  const config = asObject(request['generationConfig'] ?? request['generation_config'])
  const bound = countIn(config?.['maxOutputTokens'] ?? config?.['max_output_tokens'])
  const stated = countIn(config?.['candidateCount'] ?? config?.['candidate_count'])
  const choices = typeof stated === 'number' ? Math.min(Math.max(1, stated), Number.MAX_SAFE_INTEGER) : 1
  const isBounded = typeof bound === 'number' && bound > 0 && stated !== 'bad' && stated !== 0
  const requestedTokens = isBounded ? Math.min(bound * choices, Number.MAX_SAFE_INTEGER) : undefined
  return { promptTokens: estimatedTokens(promptCharacters(request, body)), requestedTokens, choices }
}

/** Whether a field is there in both of its spellings. */
export function hasBothSpellings(body: string): boolean {
  const request = asObject(parseJson(body))!
  const pairs = [['systemInstruction', 'system_instruction'], ['toolConfig', 'tool_config'], CONFIG_FIELDS]
  if (pairs.some((pair) => pair.every((name) => Object.hasOwn(request, name)))) return true
  const config = asObject(request['generationConfig'] ?? request['generation_config']) ?? {}
  const isThere = (name: string) => (config[name] ?? null) !== null
  return [0, 2].some((i) => isThere(COUNT_FIELDS[i]!) && isThere(COUNT_FIELDS[i + 1]!))
}

export function geminiAnswerByTree(body: string): Tally {
  const [dialect, tally] = [new GeminiDialect(), newTally()]
  const value = parseJson(body)
  const answers = Array.isArray(value) ? value : [value]
  for (const answer of answers) dialect.read({ ...asObject(answer), usageMetadata: undefined }, tally)
  // Usage is cumulative, so the largest counts hold, for all of the text.
  for (const answer of answers) readGeminiUsage(asObject(answer)?.['usageMetadata'], tally)
  return tally
}

/** The number in a configuration: undefined where there is none. */
function countIn(value: unknown): number | 'bad' | undefined {
  if (value === undefined || value === null) return undefined
  const number = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value
  return Number.isInteger(number) && (number as number) >= 0 ? (number as number) : 'bad'
}

function promptCharacters(request: JsonObject, body: string): number {
  const present = PROMPT_FIELDS.filter((name) => Object.hasOwn(request, name))
  if (present.length === 0) return characters(body)
  const requests = asList(request['requests']).map((each) => asObject(each) ?? {})
  let others = othersOf(request, GEMINI_NAMES)
  for (const name of CONFIG_FIELDS) others += othersOf(asObject(request[name]) ?? {}, COUNT_FIELDS)
  for (const each of requests) others += othersOf(each, ['content', 'title', 'model'])
  let sum = others > 256 ? others : 0
  for (const name of PROMPT_FIELDS.slice(0, 4)) sum += contentsCharacters(request[name])
  for (const each of requests) sum += contentsCharacters(each['content']) + charactersIn(each['title'])
  return DEFINITION_FIELDS.reduce((all, name) => all + writtenCharacters(request[name]), sum)
}

function contentsCharacters(value: unknown): number {
  if (Array.isArray(value)) return value.reduce((sum: number, each) => sum + (Array.isArray(each) ? 0 : contentsCharacters(each)), 0)
  const parts = asObject(value)?.['parts']
  if (Array.isArray(parts)) return parts.reduce((sum: number, each) => sum + (Array.isArray(each) ? 0 : partCharacters(each)), 0)
  return charactersIn(value) + partCharacters(parts)
}

function partCharacters(value: unknown): number {
  const part = asObject(value)
  if (part === undefined) return charactersIn(value)
  let sum = charactersIn(part['text'])
  for (const name of WRITTEN_PARTS) if (asObject(part[name]) !== undefined) sum += writtenCharacters(part[name])
  const blob = asObject(part['inlineData'])
  return TEXT_TYPES.includes(String(blob?.['mimeType'])) ? sum + charactersIn(blob!['data']) : sum
}

function othersOf(object: JsonObject, known: readonly string[]): number {
  const others = Object.keys(object).filter((name) => !known.includes(name))
  return others.reduce((sum, name) => sum + writtenCharacters(object[name]), 0)
}

function writtenCharacters(value: unknown): number {
  if (typeof value === 'string') return characters(value)
  if (typeof value !== 'object' || value === null || Object.keys(value).length === 0) return 0
  return characters(JSON.stringify(value))
}
