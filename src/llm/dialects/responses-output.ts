import { asCount, asObject, asText, type JsonObject, writeJson } from '../json.ts'

/** Longer responses are cut without their text: some 30,000 tokens, kept for each stream while it passes. */
const MAX_CHARACTERS = 128 * 1024
/** What an item or a part is counted as, beside its text. */
const OVERHEAD = 256
/** Texts are joined after so many pieces, so that they take little more memory than their characters. */
const MAX_PIECES = 256

/** Parts of a message, by the event that begins their names; `field` has their text. */
const PART_TEXTS: Readonly<Record<string, { readonly event: string; readonly field: string }>> = {
  output_text: { event: 'response.output_text', field: 'text' },
  refusal: { event: 'response.refusal', field: 'refusal' },
}

interface Item {
  /** As the client got it. */
  readonly json: JsonObject
  readonly isDone: boolean
  readonly parts: Map<number, Part>
}

interface Part {
  readonly json: JsonObject
  readonly isDone: boolean
  pieces: string[]
}

export interface OutputEnd {
  /** The events that end what is open, in order, without their numbers. */
  readonly events: readonly JsonObject[]
  /** The output of the response so far. */
  readonly output: readonly JsonObject[]
}

/**
 * The output of a Responses stream as its client has got it. Clients take their text from the events that end a part and an item, and from the last event: a
 * cut stream has to have all of them.
 */
export class ResponsesOutput {
  /** By their index; undefined once there is too much to be kept. */
  #items: Map<number, Item> | undefined = new Map()
  #characters = 0

  remember(event: JsonObject): void {
    const index = asCount(event['output_index'])
    if (this.#items === undefined || index === undefined) return
    const item = this.#items.get(index)
    const at = asCount(event['content_index'])
    switch (event['type']) {
      case 'response.output_item.added':
        return this.#setItem(index, event['item'], false)
      case 'response.output_item.done':
        return this.#setItem(index, event['item'], true)
      case 'response.content_part.added':
        return this.#setPart(item, at, event['part'], false)
      case 'response.content_part.done':
        return this.#setPart(item, at, event['part'], true)
      case 'response.output_text.delta':
      case 'response.refusal.delta':
        return this.#addText(item?.parts.get(at ?? -1), asText(event['delta']))
    }
  }

  /** Ends messages and reasoning. A call of a tool that is not complete is left out: nobody may take half of its arguments for all of them. */
  end(): OutputEnd {
    const events: JsonObject[] = []
    const output: JsonObject[] = []
    const items = [...(this.#items ?? [])].sort(([a], [b]) => a - b)
    for (const [output_index, item] of items) {
      if (item.isDone) output.push(item.json)
      else if (item.json['type'] === 'message' || item.json['type'] === 'reasoning') output.push(endItem(item, output_index, events))
    }
    return { events, output }
  }

  #setItem(index: number, value: unknown, isDone: boolean): void {
    const json = asObject(value)
    if (json === undefined) return
    this.#items!.set(index, { json, isDone, parts: new Map() })
    this.#count(writeJson(json)?.length)
  }

  #setPart(item: Item | undefined, at: number | undefined, value: unknown, isDone: boolean): void {
    const json = asObject(value)
    if (item === undefined || at === undefined || json === undefined) return
    item.parts.set(at, { json, isDone, pieces: [] })
    this.#count(writeJson(json)?.length)
  }

  #addText(part: Part | undefined, text: string | undefined): void {
    if (part === undefined || text === undefined) return
    part.pieces.push(text)
    if (part.pieces.length > MAX_PIECES) part.pieces = [part.pieces.join('')]
    this.#characters += text.length
    this.#forgetIfMuch()
  }

  /** `length` is undefined for what cannot be written. */
  #count(length = MAX_CHARACTERS): void {
    this.#characters += OVERHEAD + length
    this.#forgetIfMuch()
  }

  #forgetIfMuch(): void {
    if (this.#characters > MAX_CHARACTERS) this.#items = undefined
  }
}

/** Adds the events that end an item, and returns it as it is then. */
function endItem({ json, parts }: Item, output_index: number, events: JsonObject[]): JsonObject {
  const content: JsonObject[] = []
  const item_id = json['id']
  for (const [content_index, { json: part, isDone, pieces }] of [...parts].sort(([a], [b]) => a - b)) {
    const { event, field } = PART_TEXTS[String(part['type'])] ?? {}
    const text = `${asText(part[field ?? '']) ?? ''}${pieces.join('')}`
    const ended = isDone || field === undefined ? part : { ...part, [field]: text }
    content.push(ended)
    if (isDone || field === undefined) continue
    const at = { item_id, output_index, content_index }
    events.push({ type: `${event}.done`, ...at, [field]: text, ...(field === 'text' && { logprobs: [] }) })
    events.push({ type: 'response.content_part.done', ...at, part: ended })
  }
  const item = { ...json, status: 'incomplete', ...(json['type'] === 'message' && { content }) }
  events.push({ type: 'response.output_item.done', output_index, item })
  return item
}
