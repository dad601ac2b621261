import { describe, expect, test } from 'vitest'
import { readLlmRequest } from '../../test/support/llm/json-readers.ts'
import type { LlmEndpoint } from './endpoints.ts'
import { LlmRequestReader } from './llm-request.ts'

const GEMINI: LlmEndpoint = { dialect: 'gemini' }

function refersElsewhere(body: object | string, endpoint?: LlmEndpoint): unknown {
  const reader = new LlmRequestReader('utf8', endpoint)
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  reader.push(bytes, 0, bytes.length)
  const request = reader.end()
  return typeof request === 'string' ? request : request.hasUnseenPrompt === true
}

const item = (fields: object): object => ({ input: [fields, { role: 'user', content: 'go on' }] })
const part = (fields: object): object => ({ messages: [{ role: 'user', content: [{ type: 'text', text: 'read it' }, fields] }] })
const tool = (fields: object): object => ({ input: 'go on', tools: [fields] })
const contents = (fields: object, more: object = {}): object => ({
  contents: [{ role: 'user', parts: [{ text: 'read it' }, fields] }],
  ...more,
})

describe('a request refers to a prompt elsewhere with', () => {
  test.each<[string, object | string]>([
    ['an earlier response, and no other prompt', { previous_response_id: 'resp_1' }],
    ['an earlier interaction', { input: 'go on', previous_interaction_id: 'i' }],
    ['an earlier message', { messages: [], thread: { type: 'continue', previous_message_id: 'msg_1' } }],
    ['a conversation', { input: 'x', conversation: 'conv_1' }],
    ['a conversation that is an object', { conversation: { id: 'conv_1' } }],
    ['a container', { messages: [], container: { id: 'container_1' } }],
    ['a skill in a container', { messages: [], container: { skills: [{ type: 'custom', skill_id: 's' }] } }],
    ['a stored prompt', { prompt: { id: 'pmpt_1' } }],
    ['an item', item({ type: 'item_reference', id: 'msg_1' })],
    ['an item without a type', item({ id: 'msg_1' })],
    ['an item whose type is null', item({ id: 'msg_1', type: null })],
    ['an item whose type is wrong', item({ id: 'msg_1', type: 5, content: null })],
    ['a single item', { input: { id: 'msg_1' } }],
    ['an earlier picture', item({ type: 'image_generation_call', id: 'ig_1', status: 'completed' })],
    ['a file', part({ type: 'file', file: { file_id: 'file_1' } })],
    ['the id of a file in it', part({ type: 'file', file: { id: 'file_1' } })],
    ['a list of files', { messages: [], files: [{ type: 'file', id: 'file_1' }] }],
    ['the container of a shell', tool({ type: 'shell', environment: { type: 'container_reference', container_id: 'c' } })],
    ['a name that is escaped', '{"messages":[{"file\\u005fid":"file_1"}]}'],
    ['a document that is not read', part({ type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA' } })],
    ['a file in another case', part({ type: 'file', FILE_ID: 'file_1' })],
    ['a file in camel case', part({ type: 'file', fileId: 'file_1' })],
    ['a file in the spelling that Go folds', part({ file_idſ: ['file_1'] })],
    ['a picture', part({ type: 'image_url', image_url: { url: 'https://example.org/a.png' } })],
    ['a picture by its URL alone', part({ type: 'input_image', image_url: 'https://example.org/a.png' })],
    ['a URL behind a space', part({ type: 'image_url', image_url: { url: ' https://example.org/a.png' } })],
    ['a URL behind many spaces', part({ type: 'image_url', image_url: { url: `${' '.repeat(300)}https://example.org/a.png` } })],
    ['a URL of another kind', part({ type: 'image_url', image_url: { url: 'gs://a/b' } })],
    ['a long URL', part({ type: 'image_url', image_url: { url: `https://example.org/${'x'.repeat(9000)}` } })],
    ['a picture, where it is taken by its URL', part({ image: 'https://example.org/a.png' })],
    ['a picture behind many spaces, where it is taken by its URL', part({ image: `${'\n'.repeat(300)}https://example.org/a.png` })],
    ['a picture behind a control character', part({ image: '\u0001https://example.org/a.png' })],
    ['sound, where it is taken by its URL', part({ type: 'input_audio', input_audio: { data: 'https://example.org/a.wav' } })],
    ['a document', part({ type: 'document_url', document_url: 'https://example.org/a.pdf' })],
    ['sound', part({ type: 'audio_url', audio_url: { url: 'https://example.org/a.wav' } })],
    ['an earlier sound', { messages: [{ role: 'assistant', audio: { id: 'audio_1' } }] }],
    ['a document of a message', part({ type: 'document', source: { type: 'url', url: 'https://example.org/a.pdf' } })],
    ['an upload', part({ type: 'container_upload', file_id: 'file_1' })],
    ['an attachment', { messages: [{ role: 'user', content: 'x', attachments: [{ file_id: 'file_1', tools: [] }] }] }],
    ['a file in a result', item({ type: 'function_call_output', call_id: 'c', output: [{ type: 'input_file', file_id: 'file_1' }] })],
    ['a screenshot', item({ type: 'computer_call_output', output: { type: 'computer_screenshot', file_id: 'file_1' } })],
    ['a file that calls itself a result, too', '{"messages":[{"content":[{"type":"a_result","type":"file","file_id":"f"}]}]}'],
    ['files to search', tool({ type: 'file_search', vector_store_ids: ['vs_1'] })],
    ['files of a container', tool({ type: 'code_interpreter', container: { type: 'auto', file_ids: ['file_1'] } })],
    ['the container of a tool', tool({ type: 'code_interpreter', container: 'cntr_1' })],
    ['tools elsewhere', tool({ type: 'mcp', server_url: 'https://example.org' })],
    ['files of tools', { messages: [], tool_resources: { file_search: { vector_store_ids: ['vs_1'] } } }],
    ['what is merged with it', { messages: [], extra_body: { google: { cached_content: 'cachedContents/1' } } }],
    ['items that are merged with it', { messages: [], extra_body: { input: [{ id: 'msg_1' }] } }],
  ])('%s', (_, body) => {
    expect(refersElsewhere(body)).toBe(true)
  })

  test.each<[string, object]>([
    ['a cache', contents({}, { cachedContent: 'cachedContents/1' })],
    ['a file', contents({ fileData: { mimeType: 'application/pdf', fileUri: 'gs://a/b' } })],
    ['files to search', contents({}, { tools: [{ fileSearch: { fileSearchStoreNames: ['fileSearchStores/abc'] } }] })],
    ['a corpus', contents({}, { tools: [{ retrieval: { vertexRagStore: { ragResources: [{ ragCorpus: 'ragCorpora/1' }] } } }] })],
    ['a data store', contents({}, { tools: [{ retrieval: { vertexAiSearch: { datastore: 'dataStores/1' } } }] })],
    ['a file that it has uploaded', contents({ file_data: { file_uri: 'files/abc' } })],
    ['a file in a result', contents({ functionResponse: { name: 'f', response: {}, parts: [{ fileData: { fileUri: 'gs://a/b' } }] } })],
  ])("Gemini's: %s", (_, body) => {
    expect(refersElsewhere(body, GEMINI)).toBe(true)
  })
})

/** Whole conversations as the official SDKs send them. */
describe('a request does not refer to one with', () => {
  test.each<[string, object]>([
    [
      'nothing',
      { messages: [{ role: 'user', content: 'hello' }], previous_response_id: null, conversation: '', container: {}, file_ids: [''] },
    ],
    [
      'ids of its user, its session and notes',
      {
        messages: [],
        user: 'u',
        safety_identifier: 's',
        prompt_cache_key: 'k',
        metadata: { user_id: 'u', ticket_url: 'https://example.org' },
        client_metadata: { installation_id: 'i' },
        diagnostics: { previous_message_id: 'msg_1' },
        session_id: 's',
        litellm_trace_id: 't',
        clientRequestId: 'r',
        request_id: 'r',
      },
    ],
    [
      'schemas',
      {
        messages: [],
        tools: [
          {
            type: 'function',
            function: { name: 'f', parameters: { $id: 'https://example.org', properties: { file_id: { type: 'string', default: 'x' } } } },
          },
          {
            name: 'f',
            input_schema: { properties: { url: { type: 'string', enum: ['https://example.org'] } } },
            input_examples: [{ user_id: 'u' }],
          },
          { type: 'code_interpreter', container: { type: 'auto' } },
        ],
        response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { $id: 'https://example.org' } } },
      },
    ],
    [
      'calls and their results in a chat',
      {
        messages: [
          { role: 'user', content: 'read https://example.org' },
          {
            role: 'assistant',
            id: 'm',
            tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"file_id":"f"}' } }],
          },
          { role: 'tool', tool_call_id: 'call_1', content: '{"url":"https://example.org"}' },
        ],
        logit_bias: { 50256: -100 },
        stop_token_ids: [1, 2],
      },
    ],
    [
      'pictures and sound in it',
      {
        messages: [
          { role: 'user', content: [{ type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(999)}`, detail: 'low' } }] },
          { role: 'user', content: [{ type: 'image_url', image_url: { url: 'iVBORw0KGgo'.repeat(99) } }] },
          { role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] },
          { role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }] },
        ],
      },
    ],
    [
      'items of earlier responses',
      {
        store: false,
        include: ['reasoning.encrypted_content'],
        input: [
          { role: 'user', content: 'hello' },
          { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAAA' },
          {
            type: 'message',
            id: 'msg_1',
            role: 'assistant',
            content: [
              {
                type: 'output_text',
                text: 'hi',
                annotations: [
                  { type: 'url_citation', url: 'https://example.org', title: 't' },
                  { type: 'file_citation', file_id: 'file_1' },
                ],
              },
            ],
          },
          { id: 'msg_2', role: 'assistant', content: 'hi' },
          { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'f', arguments: '{}', caller: { type: 'program', caller_id: 'c' } },
          { type: 'function_call_output', call_id: 'call_1', output: 'x' },
          {
            type: 'web_search_call',
            id: 'ws_1',
            action: { type: 'open_page', url: 'https://example.org', sources: [{ type: 'url', url: 'https://a' }] },
          },
          { type: 'file_search_call', id: 'fs_1', queries: ['x'], results: [{ file_id: 'file_1', text: 'x' }] },
          { type: 'code_interpreter_call', id: 'ci_1', code: 'x', container_id: 'cntr_1', outputs: [{ type: 'image', url: 'https://a' }] },
          {
            type: 'computer_call_output',
            call_id: 'c',
            acknowledged_safety_checks: [{ id: 's' }],
            output: { type: 'computer_screenshot', image_url: 'data:image/png;base64,AAAA' },
          },
          { type: 'mcp_approval_response', approval_request_id: 'mcpr_1', approve: true },
        ],
      },
    ],
    [
      "blocks of Anthropic's earlier responses",
      {
        messages: [
          {
            role: 'assistant',
            content: [
              {
                type: 'text',
                text: 'hi',
                citations: [{ type: 'web_search_result_location', url: 'https://example.org', encrypted_index: 'x' }],
              },
              {
                type: 'tool_use',
                id: 'toolu_1',
                name: 'f',
                input: { file_id: 'f', url: 'https://example.org' },
                caller: { type: 'code_execution_20250825', tool_id: 't' },
              },
              {
                type: 'web_search_tool_result',
                tool_use_id: 't',
                content: [{ type: 'web_search_result', url: 'https://example.org', title: 't', encrypted_content: 'x' }],
              },
              {
                type: 'web_fetch_tool_result',
                tool_use_id: 't',
                content: {
                  type: 'web_fetch_result',
                  url: 'https://example.org',
                  content: { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'https://example.org is a page' } },
                },
              },
              {
                type: 'code_execution_tool_result',
                tool_use_id: 't',
                content: { type: 'code_execution_result', content: [{ type: 'code_execution_output', file_id: 'file_1' }] },
              },
            ],
          },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: 'toolu_1', content: 'https://example.org' },
              { type: 'search_result', source: 'https://example.org', title: 't', content: [{ type: 'text', text: 'x' }] },
            ],
          },
        ],
        metadata: { user_id: 'u' },
      },
    ],
    ['work on files without a prompt', { file_ids: ['file_1'], input_file_id: 'file_2', server_url: 'https://example.org' }],
  ])('%s', (_, body) => {
    expect(refersElsewhere(body)).toBe(false)
  })

  test.each<[string, object]>([
    [
      "calls and results of Gemini's",
      {
        contents: [
          {
            role: 'model',
            parts: [{ functionCall: { id: 'f', name: 'f', args: { orderId: 'o', url: 'https://example.org' } }, thoughtSignature: 'AAAA' }],
          },
          {
            role: 'user',
            parts: [
              { functionResponse: { id: 'f', name: 'f', response: { fileUri: 'gs://a/b' } } },
              { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
            ],
          },
        ],
        tools: [{ functionDeclarations: [{ name: 'f', parameters: { properties: { userId: { type: 'STRING' } } } }] }],
        labels: { team_id: 'a' },
      },
    ],
  ])('%s', (_, body) => {
    expect(refersElsewhere(body, GEMINI)).toBe(false)
  })
})

test('what is encrypted counts by its size', () => {
  expect(readLlmRequest(JSON.stringify(item({ type: 'reasoning', encrypted_content: 'x'.repeat(395) }))).promptTokens).toBe(100)
})
