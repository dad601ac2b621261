import type { DialectName } from './dialects/dialect.ts'

/** What the path of a request says about it. The rest is read from its body and its response, by the fields that are present. */
export interface LlmEndpoint {
  /** The API whose bodies the path takes; undefined if the path does not say, so that the fields of the body do. */
  readonly dialect?: DialectName
  /** The model that the path names, which providers obey whatever the body says; AMBIGUOUS_MODEL if two readers could find different ones. */
  readonly model?: string | undefined
  /** Whether the provider ignores a model in the body, so that it may be any. */
  readonly ignoresBodyModel?: boolean
  /** Whether the response is a stream, whatever the body says. */
  readonly isStream?: boolean
  /** Whether nothing is generated. */
  readonly isEmbedding?: boolean
  /** Whether tokens are only counted, which costs none. */
  readonly isCounting?: boolean
  /** Whether the bodies are those of Vertex's general `predict`: `instances` and `predictions`, whose form each model chooses. */
  readonly isPrediction?: boolean
}

/** No model has this name. */
export const AMBIGUOUS_MODEL = '\0'

const ANYWHERE: LlmEndpoint = {}
const GEMINI_MODELS = /\/(?:models|tunedModels|dynamic|endpoints)$/
const ANTHROPIC_MODELS = /\/publishers\/anthropic\/models$/
const GOOGLE_MODELS = /\/publishers\/google\/models$/
/** Models of any publisher, and models that a customer has deployed: an endpoint names what runs there. */
const ALL_MODELS = /\/(?:models|endpoints)$/

/** Models of all publishers but Anthropic take the body of their own API, and a model in it has no effect. */
const OF_ANY_PUBLISHER: Method = { parents: ALL_MODELS, ignoresBodyModel: true }
const PREDICTION: Method = { ...OF_ANY_PUBLISHER, isPrediction: true }

/** Google's methods: what follows the colon in `…/models/<model>:<method>`. The first row counts whose parents precede the model, and that the model fits. */
const METHODS: Readonly<Record<string, readonly Method[]>> = {
  generateContent: [{ parents: GEMINI_MODELS, dialect: 'gemini' }],
  streamGenerateContent: [{ parents: GEMINI_MODELS, dialect: 'gemini', isStream: true }],
  embedContent: [{ parents: GEMINI_MODELS, dialect: 'gemini', isEmbedding: true }],
  batchEmbedContents: [{ parents: GEMINI_MODELS, dialect: 'gemini', isEmbedding: true }],
  countTokens: [{ parents: GEMINI_MODELS, dialect: 'gemini', isCounting: true, ignoresBodyModel: true }],
  rawPredict: [
    // In place of a model, Vertex has this name for counting the tokens of an Anthropic request, whose model is in the body.
    { parents: ANTHROPIC_MODELS, models: /^count-tokens$/, dialect: 'anthropic', isCounting: true, ignoresBodyModel: true },
    { parents: ANTHROPIC_MODELS, dialect: 'anthropic' },
    OF_ANY_PUBLISHER,
  ],
  streamRawPredict: [
    { parents: ANTHROPIC_MODELS, dialect: 'anthropic', isStream: true },
    { ...OF_ANY_PUBLISHER, isStream: true },
  ],
  // Google's models for embeddings have the word in their names, and generate nothing.
  predict: [{ ...PREDICTION, parents: GOOGLE_MODELS, models: /embedding/, isEmbedding: true }, PREDICTION],
  serverStreamingPredict: [{ ...PREDICTION, isStream: true }],
  predictLongRunning: [PREDICTION],
  directPredict: [PREDICTION],
  directRawPredict: [OF_ANY_PUBLISHER],
}

interface Method extends Omit<LlmEndpoint, 'model'> {
  readonly parents: RegExp
  /** The models that the row is about, if not all. */
  readonly models?: RegExp
}

/** Anthropic's path for counting. Of what precedes it, no more may vary: a server that ignores the end of `/chat/completions/count_tokens` generates. */
const COUNTING_END = '/messages/count_tokens'
const COUNTING: LlmEndpoint = { dialect: 'anthropic', isCounting: true, ignoresBodyModel: true }
/** Azure's deployments of OpenAI models: the path names the deployment, and a model in the body has no effect. Azure reads path and name in any case. */
const DEPLOYMENTS = '/openai/deployments/'
/** Vertex's chat completions of a model that a customer has deployed. */
const HOSTED_CHAT = /\/locations\/[^/]+\/endpoints\/([^/]+)\/chat\/completions$/
const CHAT_END = '/chat/completions'
/** The one such endpoint that is shared by models, and believes the body. */
const SHARED_ENDPOINT = 'openapi'
/** What follows the name of a deployment. Gateways that imitate Azure also take names with slashes. */
const OPERATIONS = /\/(?:(?:extensions\/)?chat\/completions|completions|embeddings|responses)\/?$/i
/** A slash, however often it is escaped. */
const ESCAPED_SLASH = /%(?:25)*2F/gi

/** Returns what a normalised path says. Some servers decode slashes before they divide a path, so a path that names a model only then is ambiguous. */
export function endpointOf(path: string): LlmEndpoint {
  const read = readEndpoint(path)
  const endpoint = OTHER_EMBEDDINGS.test(path) ? { ...read, isEmbedding: true } : read
  if (!path.includes('%') || endpoint.model === AMBIGUOUS_MODEL) return endpoint
  return readEndpoint(path.replace(ESCAPED_SLASH, '/')).model === endpoint.model ? endpoint : { model: AMBIGUOUS_MODEL }
}

function readEndpoint(path: string): LlmEndpoint {
  if (path.endsWith(COUNTING_END)) return COUNTING
  // Some servers ignore a slash at the end.
  return readModelPath(path.endsWith('/') ? path.slice(0, -1) : path)
}

function readModelPath(path: string): LlmEndpoint {
  const deployment = path.toLowerCase().indexOf(DEPLOYMENTS)
  if (deployment >= 0) return azureEndpoint(path.slice(deployment + DEPLOYMENTS.length))
  const hosted = HOSTED_CHAT.exec(path)?.[1]
  if (hosted !== undefined && hosted !== SHARED_ENDPOINT) return { model: modelIn(hosted), ignoresBodyModel: true }
  const slash = path.lastIndexOf('/')
  const segment = path.slice(slash + 1)
  const [at, colon] = lastColon(segment)
  if (at <= 0) return ANYWHERE
  const method = segment.slice(at + colon)
  const model = modelIn(segment.slice(0, at))
  const parent = path.slice(0, slash)
  const rows = Object.hasOwn(METHODS, method) ? METHODS[method]! : []
  const row = rows.find(({ parents, models }) => parents.test(parent) && (models?.test(model) ?? true))
  if (row === undefined) return ANYWHERE
  const { parents: _parents, models: _models, ...endpoint } = row
  return endpoint.isCounting === true && endpoint.dialect === 'anthropic' ? COUNTING : { ...endpoint, model }
}

/** Returns where a path names the model that `endpointOf` finds in it; undefined if it names none. */
export function modelSpanIn(path: string): readonly [from: number, to: number] | undefined {
  if (endpointOf(path).model === undefined) return undefined
  const deployment = path.toLowerCase().indexOf(DEPLOYMENTS)
  if (deployment >= 0) {
    const from = deployment + DEPLOYMENTS.length
    return [from, from + deploymentEnd(path.slice(from))]
  }
  const trimmed = path.endsWith('/') ? path.slice(0, -1) : path
  const hosted = HOSTED_CHAT.exec(trimmed)?.[1]
  const chat = trimmed.length - CHAT_END.length
  if (hosted !== undefined) return [chat - hosted.length, chat]
  const from = trimmed.lastIndexOf('/') + 1
  return [from, from + lastColon(trimmed.slice(from))[0]]
}

/** Whether a request at this path only counts tokens. */
export function isCountingPath(path: string): boolean {
  return COUNTING_ENDS.some((end) => path.endsWith(end)) && endpointOf(path).isCounting === true
}

/** Whether a request at this path generates nothing. */
export function isEmbeddingPath(path: string): boolean {
  return OTHER_EMBEDDINGS.test(path) || (EMBEDDING_ENDS.some((end) => path.endsWith(end)) && endpointOf(path).isEmbedding === true)
}

/** OpenAI's, and its moderations; those of Ollama, Cohere and Text Embeddings Inference; and those of Bedrock's models, whose names say what they are. */
const OTHER_EMBEDDINGS = /\/(?:embeddings|moderations|embed|embed_all|embed_sparse|model\/[^/]*embed[^/]*\/invoke)$/
const COUNTING_ENDS = [COUNTING_END, 'countTokens', 'rawPredict']
const EMBEDDING_ENDS = ['embedContent', 'batchEmbedContents', 'predict']

/** `rest`: what follows DEPLOYMENTS. */
function azureEndpoint(rest: string): LlmEndpoint {
  const end = deploymentEnd(rest)
  if (end < 0) return ANYWHERE
  const segments = rest.slice(0, end).split('/').map(modelIn)
  const model = segments.includes(AMBIGUOUS_MODEL) ? AMBIGUOUS_MODEL : segments.join('/').toLowerCase()
  return { model: model.length > MAX_MODEL_CHARACTERS ? AMBIGUOUS_MODEL : model, ignoresBodyModel: true }
}

function deploymentEnd(rest: string): number {
  const operation = rest.search(OPERATIONS)
  return operation > 0 ? operation : rest.indexOf('/')
}

/** Returns where the last colon of a segment is, and its length: a normalised path keeps `%3A`, which Google reads as a colon. */
function lastColon(segment: string): readonly [at: number, length: number] {
  const [plain, escaped] = [segment.lastIndexOf(':'), segment.lastIndexOf('%3A')]
  return plain > escaped ? [plain, 1] : [escaped, 3]
}

/** Longer names are not kept of bodies either. */
const MAX_MODEL_CHARACTERS = 256
/** Backends differ in what they make of such names in a path, and a client could name one model to us and another to the backend. */
const AMBIGUOUS = /[/\\%?#;\0-\x20\x7f]|\.\./

function modelIn(segment: string): string {
  const model = decoded(segment)
  return model === undefined || model === '' || model.length > MAX_MODEL_CHARACTERS || AMBIGUOUS.test(model) ? AMBIGUOUS_MODEL : model
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

/** Returns the name of a model without the resource names before it: `models/x` is `x`. */
export function plainModel(name: string): string {
  const slash = name.lastIndexOf('/')
  const parent = slash < 0 ? '' : name.slice(0, slash)
  return /(?:^|\/)(?:models|tunedModels|dynamic|endpoints)$/.test(parent) ? name.slice(slash + 1) : name
}
