// Three letters and a space: each word is one token by the rule of four characters a token.
const WORDS =
  'the old fox saw the red hen sit far off and ran for her but the sly hen had one big dog who did not let any fox get our hen'.split(' ')

/** So many tokens of text from a position on: the same position gives the same word. */
export function wordsFrom(position: number, tokens: number): string {
  let text = ''
  for (let i = position; i < position + tokens; i++) text += `${WORDS[i % WORDS.length]} `
  return text
}
