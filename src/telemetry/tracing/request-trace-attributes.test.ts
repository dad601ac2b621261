import { expect, test } from 'vitest'
import { requestAttributes } from './request-trace.ts'

// That it does not hold on to the target that it came with: test/campaigns/span-memory.test.ts
test('a path is cut, and has no query', () => {
  const target = 'a-long-target/'.repeat(1000)
  expect(requestAttributes({ method: 'GET', uri: `/${target}` })['url.path']).toBe(`/${target}`.slice(0, 256))
  expect(requestAttributes({ method: 'GET', uri: `/short?query=${target}` })['url.path']).toBe('/short')
})
