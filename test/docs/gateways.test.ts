import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ROOT, readText } from './markdown.ts'

const EXAMPLES = 'examples/gateways'
const PAGES = 'docs/gateways'

describe('the pages about gateways', () => {
  const gateways = readdirSync(join(ROOT, EXAMPLES))

  test.each(gateways)('%s: the page shows the very files that the tests start', (gateway) => {
    const blocks = codeBlocksOf(readText(`${PAGES}/${pageOf(gateway)}`))
    for (const file of readdirSync(join(ROOT, EXAMPLES, gateway))) {
      const text = readText(`${EXAMPLES}/${gateway}/${file}`)
      expect(blocks.includes(text), `${file} as it is, in a code block`).toBe(true)
    }
  })

  test('the table on top has every page', () => {
    const index = readText(`${PAGES}/README.md`)
    const pages = readdirSync(join(ROOT, PAGES)).filter((page) => page.endsWith('.md') && page !== 'README.md')
    expect(pages.filter((page) => !index.includes(`](${page})`))).toEqual([])
  })
})

/** Examples of one gateway may share a page: `envoy-ext-authz` and `envoy-rate-limit` would be on `envoy.md`. */
function pageOf(example: string): string {
  const pages = readdirSync(join(ROOT, PAGES))
  return pages.find((page) => page === `${example}.md`) ?? `${example.split('-')[0]}.md`
}

function codeBlocksOf(text: string): string[] {
  return [...text.matchAll(/^```\w*\n(.*?)^```$/gms)].map((block) => block[1]!)
}
