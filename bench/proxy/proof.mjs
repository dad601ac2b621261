// Each contestant is shown to do its job before it is measured.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, fetchFrom } from '../support/http-client.mjs'
import { COMPLETION } from './requests.mjs'

const KEY = { 'X-Api-Key': 'check' }
const CHAT = '{"stream":true,"messages":[]}'
const DOCUMENT_BYTES = 64 * 1024

/** It lets a few through, then rejects, and another key is none of its business. */
export async function expectToLimit({ name, server }) {
  const statuses = []
  for (let i = 0; i < 8; i++) statuses.push(await statusOf(server, 'check'))
  expect(statuses[0] === 200 && statuses.at(-1) === 429, `${name} rejects what is too much: ${statuses}`)
  const other = await statusOf(server, 'other')
  expect(other === 200, `${name} lets another key through: ${other}`)
}

/** Requests, answers and streams reach the other side. Only some drop what `Connection` names, as RFC 9110 7.6.1 has it. */
export async function expectToPass({ name, server: { port }, dropsHops }) {
  const { body } = await fetchFrom(port, '/echo?a=b', {
    body: 'some text',
    fields: { ...KEY, Connection: 'keep-alive, X-Hop', 'X-Hop': 'gone', 'X-Kept': 'kept' },
  })
  const { request: seen } = JSON.parse(body)
  const isKept = seen.startsWith('POST /echo?a=b HTTP/1.1\r\n') && /\r\nx-kept: kept\r\n/i.test(seen) && seen.includes('some text')
  expect(isKept && !(dropsHops && /x-hop/i.test(seen)), `${name} passes on: ${seen}`)
  const chat = await chatStatusOf({ port }, 'check')
  expect(chat === 200, `${name} passes an LLM request on: ${chat}`)
  const document = await fetchFrom(port, '/documents/7', { fields: KEY })
  expect(document.body.length === DOCUMENT_BYTES, `${name} passes 64 KB on: ${document.body.length}`)
  const stream = await streamFrom(port, 'plain')
  expect(/^(data: .*"content":"\d+".*\n\n){5}data: \[DONE\]\n\n$/.test(stream), `${name} passes a stream on: ${stream}`)
}

/** What only edge does: it counts, reports and cuts a stream; a cut one ends in a way of its own. */
export async function expectToCut({ name, server: { port } }) {
  const counted = await streamFrom(port, 'counted')
  expect(counted.includes('"finish_reason":"length"'), `${name} cuts a stream: ${counted}`)
  const reported = await streamFrom(port, 'usage')
  expect(reported.includes('"finish_reason":"length"') && reported.includes('"usage":{'), `${name} cuts and reports: ${reported}`)
}

/** What only edge does, too: tokens of whole responses use up a budget. */
export async function expectToCharge({ name, server }) {
  const statuses = []
  for (let i = 0; i < 8; i++) statuses.push(await chatStatusOf(server, 'check'))
  expect(statuses[0] === 200 && statuses.at(-1) === 429, `${name} charges a budget of tokens: ${statuses}`)
}

/** With limits that nobody reaches: every event arrives, with usage only where a rule asks for it. */
export async function expectToReport({ name, server }) {
  while ((await statusOf(server, 'check')) !== 200) await sleep(50)
  for (const [kind, usages] of [
    ['plain', 0],
    ['counted', 0],
    ['usage', 5],
  ]) {
    const stream = await streamFrom(server.port, kind)
    const seen = [count(stream, '"content":"'), count(stream, '"usage":{')]
    expect(seen.join() === `5,${usages}`, `${name} has ${seen} events and usages in ${kind}: ${stream}`)
  }
}

async function statusOf({ port }, key) {
  return (await fetchFrom(port, '/items/1', { fields: { 'X-Api-Key': key } })).status
}

async function chatStatusOf({ port }, key) {
  const { method, path, fields, body } = COMPLETION
  return (await fetchFrom(port, path, { method, body, fields: { ...fields, 'X-Api-Key': key } })).status
}

async function streamFrom(port, kind) {
  const { body } = await fetchFrom(port, `/streams/${kind}/v1/chat/completions?events=5&gap=1`, { body: CHAT, fields: KEY })
  return body
}

function count(text, part) {
  return text.split(part).length - 1
}
