import { ABSENT, fieldsOf, type JsonSizes, type Reading } from '../json-sizes.ts'
import { unitsOf } from '../json-string.ts'
import {
  BOUND_FIELDS,
  indexesOf,
  indexOf,
  KEPT_BOUNDS,
  type RequestFormat,
  readings,
  statedBounds,
  statedChoices,
  WRITTEN,
} from '../request-format.ts'

/** Protocol Buffers in JSON have two spellings of a name, and numbers may be texts. */
const SYSTEM_FIELDS = ['systemInstruction', 'system_instruction']
const CONFIG_FIELDS = ['generationConfig', 'generation_config']
const TOOL_CONFIG_FIELDS = ['toolConfig', 'tool_config']
/** No model reads these. */
const UNREAD_FIELDS = ['safetySettings', 'safety_settings', 'labels']
/** In this order, so that an index says which field and which spelling it is. */
const CONFIG_COUNTS = ['maxOutputTokens', 'max_output_tokens', 'candidateCount', 'candidate_count']
/** Base64 of these types is text to the model. Pictures, sound and documents are not counted, as in other APIs. */
const TEXT_TYPES = ['plain', 'html', 'css', 'md', 'markdown', 'csv', 'xml', 'rtf', 'javascript', 'x-python'].map((type) => `text/${type}`)
const MIME_WORDS = [...TEXT_TYPES, 'application/json', 'application/xml', 'application/x-javascript', 'application/x-python'].map(unitsOf)

const TEXT: Reading = { text: 'characters' }
const MIME: Reading = { text: { words: MIME_WORDS } }
const COUNT: Reading = { number: 'value or text' }
const WRITTEN_OBJECT: Reading = { written: 'objects' }

const BLOB: Reading = {
  fields: fieldsOf(
    { data: TEXT, mimeType: MIME, mime_type: MIME },
    { size: (sizes, from) => (sizes[from + 1]! > 0 || sizes[from + 2]! > 0 ? Math.max(0, sizes[from]!) : 0) },
  ),
}
const PART_FIELDS = {
  text: TEXT,
  ...readings(['functionCall', 'function_call', 'functionResponse', 'function_response'], WRITTEN_OBJECT),
  ...readings(['executableCode', 'executable_code', 'codeExecutionResult', 'code_execution_result'], WRITTEN_OBJECT),
  ...readings(['inlineData', 'inline_data'], BLOB),
}
const PART: Reading = {
  text: 'characters',
  fields: fieldsOf(PART_FIELDS),
}
const PARTS: Reading = { fields: fieldsOf({ parts: { ...PART, list: PART } }), text: 'characters' }
const CONTENTS: Reading = { ...PARTS, list: PARTS }
const EMBED_REQUEST: Reading = { fields: fieldsOf({ content: CONTENTS, title: TEXT, model: { text: 'kept' } }, { others: WRITTEN }) }

const REQUEST = fieldsOf(
  {
    contents: CONTENTS,
    ...readings(SYSTEM_FIELDS, CONTENTS),
    content: CONTENTS,
    requests: { list: EMBED_REQUEST },
    tools: WRITTEN,
    ...readings(TOOL_CONFIG_FIELDS, WRITTEN),
    ...BOUND_FIELDS,
    ...Object.fromEntries(CONFIG_FIELDS.map((name, i) => [name, configWith(KEPT_BOUNDS + i)])),
    model: { text: 'kept' },
    ...readings(UNREAD_FIELDS, {}),
  },
  { others: WRITTEN },
)
const BOUNDS = indexOf(REQUEST, 'max_tokens')
const PAIRS = [SYSTEM_FIELDS, CONFIG_FIELDS, TOOL_CONFIG_FIELDS].map((names) => indexesOf(REQUEST, ...names))

/** Gemini's requests, in AI Studio and in Vertex. The bound is in `generationConfig`; any others can only make it larger. */
export const GEMINI_FORMAT: RequestFormat = {
  fields: REQUEST,
  prompts: indexesOf(REQUEST, 'contents', ...SYSTEM_FIELDS, 'content', 'requests'),
  definitions: indexesOf(REQUEST, 'tools', ...TOOL_CONFIG_FIELDS),
  model: indexOf(REQUEST, 'model'),
  texts: indexesOf(REQUEST, 'contents'),
  stream: undefined,
  background: undefined,
  streamOptions: undefined,
  bounds: (sizes) => [...statedBounds(sizes, BOUNDS), ...ownCounts(sizes, 0)],
  choices: (sizes) => [...statedChoices(sizes, BOUNDS), ...ownCounts(sizes, 2)],
  hasOwnBound: (sizes) => ownCounts(sizes, 0).some((count) => count > 0),
  isRepeated: (sizes) => PAIRS.some((pair) => pair.every((index) => sizes.has(index))) || hasBothCounts(sizes),
}

/** How the bounds in an object are read, which may be the whole request's. */
function configWith(keptAs: number): Reading {
  return { fields: fieldsOf(readings(CONFIG_COUNTS, COUNT), { keptAs, others: WRITTEN, isStrict: true }) }
}

/** Returns the bound (from 0) or the number of candidates (from 2), in either spelling. */
function ownCounts({ keptSizes }: JsonSizes, from: number): number[] {
  const configs = keptSizes.slice(KEPT_BOUNDS)
  return configs.flatMap((config) => (config === undefined ? [] : [config[from]!, config[from + 1]!]))
}

function hasBothCounts(sizes: JsonSizes): boolean {
  return [0, 2].some((from) => ownCounts(sizes, from).filter((count) => count !== ABSENT).length > 1)
}
