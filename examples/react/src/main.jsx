import { createRoot } from "react-dom/client";
import { App } from "./App.jsx";
import { createSearchClient } from "./client.js";
import "./style.css";

const url = new URLSearchParams(location.search).get("service") ?? "/search";
createRoot(document.getElementById("root")).render(<App searchClient={createSearchClient(url)} />);
