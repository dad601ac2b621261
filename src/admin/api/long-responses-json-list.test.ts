import { expect, test } from 'vitest'
import { jsonWithList } from './long-responses.ts'

test.each([
  [{}, []],
  [{ next: null, text: 'ü"]}' }, [1]],
  [{ next: 'a' }, [{ id: 'ä' }, [], 'x,y']],
])('a list is the last member: %j %j', (members, list) => {
  const items = list.map((item) => Buffer.from(JSON.stringify(item)))
  expect(jsonWithList(members, 'items', items).toString()).toBe(JSON.stringify({ ...members, items: list }))
})
