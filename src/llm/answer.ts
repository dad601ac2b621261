import { blockCharacters, chatCharacters, itemCharacters } from './generated-text.ts'
import { asList, asObject, parseJson } from './json.ts'
import { charactersIn } from './text-size.ts'
import { newTally, readUsage, type Tally } from './usage.ts'

/** The cost of an answer that came whole. One without usage or known text has generated nothing, whatever its size. */
export function readAnswer(body: string): Tally {
  const tally = newTally()
  const answer = asObject(parseJson(body))
  if (answer === undefined) return tally
  for (const value of asList(answer['choices'])) {
    const choice = asObject(value)
    tally.characters += chatCharacters(choice?.['message']) + charactersIn(choice?.['text'])
  }
  for (const item of asList(answer['output'])) tally.characters += itemCharacters(item)
  if (answer['type'] === 'message') for (const block of asList(answer['content'])) tally.characters += blockCharacters(block)
  readUsage(answer['usage'], tally)
  return tally
}
