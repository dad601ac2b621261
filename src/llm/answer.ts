import { blockCharacters, chatCharacters, itemCharacters } from './generated-text.ts'
import { asList, asObject, parseJson } from './json.ts'
import { characters, charactersIn } from './text-size.ts'
import { newTally, readUsage, type Tally } from './usage.ts'

/** Texts that a model generates, in JSON that may break off anywhere. */
const GENERATED = /"(?:content|text|arguments|refusal|reasoning_content|reasoning|thinking|partial_json|input)"\s*:\s*"((?:[^"\\]|\\.)*)/g

/** What can be seen in an answer that broke off: the text that is there. An escape counts for one character. */
export function readPartialAnswer(body: string): Tally {
  const tally = newTally()
  for (const [, text] of body.matchAll(GENERATED)) tally.characters += characters(text!.replace(/\\(?:u[0-9a-fA-F]{4}|.)/g, '_'))
  return tally
}

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
