/** An event as it is sent. */
export function sseText(data: object, event?: string): string {
  return `${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`
}

export const EXCEEDED_MESSAGE = 'max completion tokens exceeded'
export const EXCEEDED_CODE = 'completion_tokens_exceeded'
