import type { JsonEvents } from './json-scanner.ts'
import { type JsonString, unitsOf } from './json-string.ts'

/** What a member's name says about its value. */
const OTHER = 0
/** An id or a URL of something that the model reads. */
const REFERENCE = 1
/** The same of a prompt, which needs no other one beside it. */
const PROMPT = 2
/** Content that is not read here, such as a document in base64. */
const CONTENT = 3
/** A picture or sound, which some APIs take by its URL. */
const MEDIA = 4
/** A bare id, which nearly everything has: it refers to what the object is, if that is content. */
const ID = 5
const HOLDER = 6
const INPUT = 7
const TYPE = 8
const ROLE = 9
const STATUS = 10
/** Nothing in it is read for the model: notes, schemas, arguments of calls, what an earlier response has cited. */
const INERT = 11

const PROMPTS = [
  'previousresponseid',
  'previousinteractionid',
  'threadid',
  'assistantid',
  'agentid',
  'conversation',
  'container',
  'cachedcontent',
]
const NAMED: readonly (readonly [kind: number, names: readonly string[]])[] = [
  [PROMPT, PROMPTS],
  [REFERENCE, ['filesearchstorenames', 'ragcorpus', 'ragcorpora', 'datastore']],
  [CONTENT, ['filedata']],
  [MEDIA, ['image', 'images', 'video', 'media', 'data']],
  [HOLDER, ['prompt', 'audio', 'file', 'files', 'attachments']],
  [INPUT, ['input']],
  [TYPE, ['type']],
  [ROLE, ['role']],
  [STATUS, ['status']],
  [ID, ['id']],
  [INERT, ['parameters', 'properties', 'args', 'arguments', 'response', 'inputexamples', 'headers', 'labels', 'diagnostics', 'caller']],
  [INERT, ['annotations', 'citations', 'action', 'results', 'outputs', 'sources', 'logprobs', 'statechanges', 'tabs']],
  [OTHER, ['toolid', 'itemid', 'customid', 'tabid', 'eventid', 'userprofileid', 'modelid', 'adapterid', 'voiceid']],
  [OTHER, ['organizationid', 'projectid', 'workspaceid', 'spaceid', 'webhookurl', 'callbackurl', 'redirecturi', 'siteurl']],
  [OTHER, ['outputuri', 'outputgcsuri', 'storageuri']],
]
const KINDS: ReadonlyMap<string, number> = new Map(NAMED.flatMap(([kind, names]) => names.map((name) => [name, kind])))
const INERT_END = /(?:metadata|schema|safetychecks)$/
/** Ids of calls, of who calls, and of what is logged of it. */
const OTHER_END = /(?:call|caller|tooluse|request|user|session|trace|span|device|client|tenant|account)ids?$/
const URL_END = /ur[li]s?$/
/** `file_id` and `fileId`, but not `valid`. */
const ID_END = /(?:^|[^A-Za-z])[Ii][Dd][Ss]?$|I[Dd][Ss]?$/

/** Names that were read last, each in the slot of its hash: most requests have the same few. */
const SLOTS = 1024
const READ = new Array<ReadName | undefined>(SLOTS).fill(undefined)

interface ReadName {
  readonly units: Uint16Array
  readonly kind: number
}

/** An `input` deeper than that of a request, or of an object that is merged with it, belongs to a call. */
const MAX_INPUT_DEPTH = 2
/** What a tool has found names its source, which nobody fetches again. */
const FOUND_TYPE = /_(?:result|output|call)$/
const ITEM_REFERENCE = 'item_reference'
/** Readers of URLs skip spaces and control characters before them, however many: of a text that begins with so many, no more is kept. */
const LINK = /^[\s\p{Cc}]*[a-z][a-z\d+.-]{0,9}:\/\/\S+\s*$|^[\s\p{Cc}]{256}$/iu

/** What was found in an object, in bits. */
const HAS_REFERENCE = 1
const HAS_ID = 2
const IS_FOUND = 4
const HAS_TYPE = 8
const HAS_ROLE = 16
const HAS_MORE = 32

/**
 * Finds out whether a request refers to a prompt, or a part of one, that lies elsewhere: an earlier response, a file, a cache, a document by its URL. No list of
 * such members would be complete, so any id or URL counts, however deep it is, unless its name or its place says that the model reads nothing behind it.
 */
export class References implements JsonEvents {
  /** Whether it refers to a prompt, or to parts of one that it has itself. */
  hasPrompt = false
  hasParts = false
  readonly #sizes: JsonEvents
  /** For each open object or list: what its name says, the level of the innermost object, and what was found in that. */
  readonly #kinds: number[] = []
  readonly #objects: number[] = []
  readonly #found: number[] = []
  #next = OTHER
  /** Nesting depth inside a value that is inert; 0 outside of one. */
  #inertDepth = 0

  /** `sizes` gets the same events. */
  constructor(sizes: JsonEvents) {
    this.#sizes = sizes
  }

  name(name: JsonString, end: number): void {
    this.#sizes.name(name, end)
    if (this.#inertDepth > 0) return
    const kind = kindOf(name)
    this.#next = kind === INPUT && this.#kinds.length > MAX_INPUT_DEPTH ? INERT : kind
    if (kind !== ID && kind !== TYPE && kind !== ROLE && kind !== STATUS) this.#note(HAS_MORE)
  }

  string(string: JsonString, isWhole: boolean): void {
    this.#sizes.string(string, isWhole)
    if (this.#inertDepth > 0 || this.#kinds.length === 0) return
    switch (this.#kind()) {
      case REFERENCE:
        if (!this.#has(HAS_REFERENCE) && isReference(string)) this.#note(HAS_REFERENCE)
        break
      case PROMPT:
        if (string.length > 0) this.hasPrompt = true
        break
      case CONTENT:
        if (string.length > 0) this.hasParts = true
        break
      case MEDIA:
        if (!this.hasParts && LINK.test(string.beginning())) this.hasParts = true
        break
      case ID:
        if (string.length > 0) this.#note(HAS_ID)
        break
      case TYPE:
        this.#noteType(string.text())
        break
      case ROLE:
        this.#note(HAS_ROLE)
    }
  }

  number(number: JsonString): void {
    this.#sizes.number(number)
  }

  literal(value: boolean | null): void {
    this.#sizes.literal(value)
  }

  begin(isObject: boolean): void {
    this.#sizes.begin(isObject)
    if (this.#inertDepth > 0 || this.#kind() === INERT) {
      this.#inertDepth++
      return
    }
    const level = this.#kinds.length
    this.#kinds.push(this.#kind())
    this.#objects.push(isObject ? level : (this.#objects[level - 1] ?? 0))
    this.#found.push(0)
    this.#next = OTHER
  }

  end(isEmpty: boolean): void {
    this.#sizes.end(isEmpty)
    if (this.#inertDepth > 0) {
      this.#inertDepth--
      return
    }
    const kind = this.#kinds.pop()!
    const found = this.#found.pop()!
    this.#objects.pop()
    if ((found & HAS_REFERENCE) !== 0 && (found & (IS_FOUND | HAS_TYPE)) !== IS_FOUND) this.hasParts = true
    if ((found & HAS_ID) === 0) return
    if (kind === PROMPT) this.hasPrompt = true
    else if (kind === HOLDER || kind === REFERENCE || (kind === INPUT && isEarlier(found))) this.hasParts = true
  }

  /** What the name of the current value says: that of a list is the name of all that is in it. */
  #kind(): number {
    const top = this.#kinds.length - 1
    return top < 0 || this.#objects[top] === top ? this.#next : this.#kinds[top]!
  }

  /** Whether that was found in the innermost object. */
  #has(bit: number): boolean {
    return (this.#found[this.#objects[this.#objects.length - 1]!]! & bit) !== 0
  }

  #note(bit: number): void {
    this.#found[this.#objects[this.#objects.length - 1]!]! |= bit
  }

  #noteType(type: string | undefined): void {
    if (type === ITEM_REFERENCE) this.hasParts = true
    else this.#note(type !== undefined && FOUND_TYPE.test(type) ? IS_FOUND : HAS_TYPE)
  }
}

/** Whether an item that has an id is one of an earlier response: it says neither what it is nor who says it, or nothing but that. */
function isEarlier(found: number): boolean {
  return (found & (IS_FOUND | HAS_TYPE | HAS_ROLE)) === 0 || (found & HAS_MORE) === 0
}

function kindOf(name: JsonString): number {
  const slot = name.hash() % SLOTS
  const read = READ[slot]
  if (read !== undefined && name.equals(read.units)) return read.kind
  const text = name.text()
  if (text === undefined) return OTHER
  const kind = readName(text)
  READ[slot] = { units: unitsOf(text), kind }
  return kind
}

/** Reads a name in any case, because Go's reader does, too, and in any way of joining words. */
function readName(name: string): number {
  const folded = name.includes('ſ') ? name.replaceAll('ſ', 's') : name
  const plain = folded.replace(/[^A-Za-z\d]+/g, '').toLowerCase()
  const kind = KINDS.get(plain)
  if (kind !== undefined) return kind
  if (INERT_END.test(plain)) return INERT
  if (OTHER_END.test(plain)) return OTHER
  return URL_END.test(plain) || ID_END.test(folded) ? REFERENCE : OTHER
}

/** Whether a text is an id or a URL: not one of data, and nothing long like base64, which has no colon near its beginning and no space before it. */
function isReference(text: JsonString): boolean {
  if (text.length === 0) return false
  const beginning = text.beginning()
  return !/^data:/i.test(beginning) && (text.isCaptured || beginning.includes(':') || /^[^!-~]/.test(beginning))
}
