// Keeps a page up to date, at almost no cost while nothing changes or the page is hidden.

import { read } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./react.js";

const SECONDS = 3;
const SECONDS_AFTER_AN_ERROR = 10;

/**
 * Poll a path. Return the newest answer, the error of the last attempt, and a function that polls at once.
 * Do nothing if the path is null.
 */
export const usePolling = (path, parameters = {}) => {
  const question = JSON.stringify([path, parameters]);
  const [seen, setSeen] = useState({});
  const known = useRef({});
  const ask = useRef(() => undefined);

  useEffect(() => {
    if (path === null) {
      return undefined;
    }
    const ended = new AbortController();
    let timer = 0;
    let asking = false;
    const poll = async () => {
      clearTimeout(timer);
      if (document.hidden || asking) {
        return;
      }
      asking = true;
      let pause = SECONDS;
      try {
        const before = known.current.question === question ? known.current.data : undefined;
        const data = await read(path, parameters, before, ended.signal);
        known.current = { data, question };
        // If the object is the same, React does not render again.
        setSeen((last) => (last.data === data && !last.error ? last : { data, question }));
      } catch (error) {
        if (!ended.signal.aborted) {
          pause = SECONDS_AFTER_AN_ERROR;
          setSeen((last) => ({ data: last.question === question ? last.data : undefined, error, question }));
        }
      }
      asking = false;
      if (!ended.signal.aborted) {
        timer = setTimeout(poll, pause * 1000);
      }
    };
    ask.current = poll;
    document.addEventListener("visibilitychange", poll);
    poll();
    return () => {
      ended.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", poll);
    };
  }, [question]);

  const again = useCallback(() => ask.current(), []);
  return seen.question === question ? { ...seen, again } : { again };
};

/** Render again from time to time, so that "… ago" stays right. */
export const useClock = (seconds = 5) => {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || tick((ticks) => ticks + 1), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
};
