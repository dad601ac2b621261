/** A request's body, of which anything may be missing or of the wrong kind. */
export type Asked = Readonly<Record<string, unknown>>

const CHARACTERS_PER_TOKEN = 4

/** All text that the model is asked to read, in tokens. Characters are code points. */
export function promptTokens({ messages, system, prompt, input, instructions }: Asked): number {
  const characters = countCharacters([messages, system, prompt, input, instructions])
  return Math.ceil(characters / CHARACTERS_PER_TOKEN)
}

/** Messages hold `content`, parts of them `text`. A number stands for a whole token: some prompts come tokenized. */
function countCharacters(value: unknown): number {
  if (typeof value === 'string') return codePoints(value)
  if (typeof value === 'number') return CHARACTERS_PER_TOKEN
  if (Array.isArray(value)) return value.reduce<number>((sum, member) => sum + countCharacters(member), 0)
  if (typeof value !== 'object' || value === null) return 0
  const { content, text } = value as Asked
  return countCharacters(content) + countCharacters(text)
}

function codePoints(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}
